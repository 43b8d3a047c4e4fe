// The declarations of this header of the host that CUB uses are in device_libraries.cu.
#pragma once
