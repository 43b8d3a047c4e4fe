//! Types that the guide's page `from_cuda.md` calls missing.

use millstream::Surface; //~ E0432
use millstream::Texture; //~ E0432

fn main() {}
