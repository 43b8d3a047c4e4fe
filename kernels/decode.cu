// nvrtc:
// The kernels of a small transformer that decodes one token at a time. The token and its position
// are words of device memory, `state[0]` and `state[1]`, so that no launch depends on them: every
// step launches the same kernels with the same arguments. A kernel that reads the state stays within
// its arrays whatever the state holds. Sums are made in a fixed order.

__device__ __forceinline__ float warp_sum(float value) {
    for (int offset = 16; offset > 0; offset >>= 1) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    return value;
}

// Copies the row of the token to `x`. One thread for each element.
extern "C" __global__ void embed(const float* table, const unsigned* state, float* x,
                                 unsigned vocabulary, unsigned width) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned token = min(state[0], vocabulary - 1);
    if (i < width) x[i] = table[(unsigned long long)token * width + i];
}

// Divides by the root of the mean of the squares, and multiplies by the weights. One warp.
extern "C" __global__ void normalise(const float* x, const float* weight, float* out,
                                     unsigned width) {
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < width; i += 32) sum += x[i] * x[i];
    float scale = rsqrtf(warp_sum(sum) / width + 1e-5f);
    for (unsigned i = threadIdx.x; i < width; i += 32) out[i] = x[i] * scale * weight[i];
}

// The product of a matrix and a vector, with `add` added to what is there. A warp for each row.
extern "C" __global__ void product(const float* matrix, const float* x, float* out, unsigned rows,
                                   unsigned columns, unsigned add) {
    unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* values = matrix + (unsigned long long)row * columns;
    float sum = 0.0f;
    for (unsigned i = lane; i < columns; i += 32) sum += values[i] * x[i];
    sum = warp_sum(sum);
    if (lane == 0) out[row] = add ? out[row] + sum : sum;
}

// Rotates query and key by the position (`turns` holds cosines and sines), and stores key and value
// in the caches. `qkv` is the query, the key and the value. One thread for each pair.
extern "C" __global__ void rotate(float* qkv, const float* turns, const unsigned* state,
                                  float* keys, float* values, unsigned width, unsigned head,
                                  unsigned context) {
    unsigned pair = blockIdx.x * blockDim.x + threadIdx.x, i = 2 * pair;
    if (i >= width) return;
    unsigned position = min(state[1], context - 1);
    unsigned turn = position * head + i % head;
    float c = turns[turn], s = turns[turn + 1];
    float q0 = qkv[i], q1 = qkv[i + 1], k0 = qkv[width + i], k1 = qkv[width + i + 1];
    qkv[i] = q0 * c - q1 * s;
    qkv[i + 1] = q0 * s + q1 * c;
    unsigned long long at = (unsigned long long)position * width + i;
    keys[at] = k0 * c - k1 * s;
    keys[at + 1] = k0 * s + k1 * c;
    values[at] = qkv[2 * width + i];
    values[at + 1] = qkv[2 * width + i + 1];
}

// Attention of one token to those before and itself. A block of one warp for each head; `scores` has
// a row of `context` numbers for each.
extern "C" __global__ void attend(const float* qkv, const float* keys, const float* values,
                                  const unsigned* state, float* scores, float* out, unsigned width,
                                  unsigned head, unsigned context) {
    unsigned first = blockIdx.x * head, lane = threadIdx.x;
    unsigned count = min(state[1], context - 1) + 1;
    float* row = scores + (unsigned long long)blockIdx.x * context;
    float scale = rsqrtf((float)head), highest = -3.0e38f;
    for (unsigned at = lane; at < count; at += 32) {
        const float* key = keys + (unsigned long long)at * width + first;
        float sum = 0.0f;
        for (unsigned i = 0; i < head; i++) sum += qkv[first + i] * key[i];
        row[at] = sum * scale;
        highest = fmaxf(highest, sum * scale);
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, offset));
    }
    float total = 0.0f;
    for (unsigned at = lane; at < count; at += 32) {
        float weight = __expf(row[at] - highest);
        row[at] = weight;
        total += weight;
    }
    total = warp_sum(total);
    __syncthreads();
    for (unsigned i = lane; i < head; i += 32) {
        float sum = 0.0f;
        for (unsigned at = 0; at < count; at++) {
            sum += row[at] * values[(unsigned long long)at * width + first + i];
        }
        out[first + i] = sum / total;
    }
}

// `out = silu(gate) * up`, with both halves in `both`. One thread for each element.
extern "C" __global__ void activate(const float* both, float* out, unsigned width) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width) return;
    float gate = both[i];
    out[i] = gate / (1.0f + __expf(-gate)) * both[width + i];
}

// Takes the likeliest token: stores it, and sets token and position for the next step. Clears
// `running` once `count` tokens are stored. One warp.
extern "C" __global__ void choose(const float* logits, unsigned* state, unsigned* tokens,
                                  unsigned* running, unsigned vocabulary, unsigned count) {
    float best = -3.0e38f;
    unsigned token = 0;
    for (unsigned i = threadIdx.x; i < vocabulary; i += 32) {
        if (logits[i] > best) {
            best = logits[i];
            token = i;
        }
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        float other = __shfl_xor_sync(0xffffffffu, best, offset);
        unsigned other_token = __shfl_xor_sync(0xffffffffu, token, offset);
        if (other > best || (other == best && other_token < token)) {
            best = other;
            token = other_token;
        }
    }
    if (threadIdx.x != 0) return;
    unsigned position = state[1];
    if (position < count) tokens[position] = token;
    state[0] = token;
    state[1] = position + 1;
    running[0] = position + 1 < count;
}
