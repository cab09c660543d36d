// Extracts the windows of images, and adds windows up to images; the formulas are in cpu/convolution.rs.

struct Windows {
    u32 height, width, channels, size, stride, padding;
    u32 down, across;  // number of windows in each direction
};

// One thread per element of the windows: y [n, down, across, size, size, channels].
extern "C" __global__ void unfold(Windows w, const float *x, float *y, u64 n) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= n) return;
    u64 rest = index;
    u32 channel = rest % w.channels;
    rest /= w.channels;
    u32 column = rest % w.size;
    rest /= w.size;
    u32 row = rest % w.size;
    rest /= w.size;
    u32 across = rest % w.across;
    rest /= w.across;
    u32 down = rest % w.down;
    u64 image = rest / w.down;
    // Above and left of the image these wrap around to values beyond any height or width.
    u32 i = down * w.stride + row - w.padding, j = across * w.stride + column - w.padding;
    bool inside = i < w.height && j < w.width;
    y[index] = inside ? x[((image * w.height + i) * w.width + j) * w.channels + channel] : 0.0f;
}

// One thread per element of the images: y [n, height, width, channels]. Terms are added in the order of the windows.
extern "C" __global__ void fold(Windows w, const float *x, float *y, u64 n) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= n) return;
    u64 rest = index;
    u32 channel = rest % w.channels;
    rest /= w.channels;
    u32 j = rest % w.width + w.padding;
    rest /= w.width;
    u32 i = rest % w.height + w.padding;
    u64 image = rest / w.height;
    // The first window that reaches the pixel: down * stride + size > i.
    u32 down0 = i < w.size ? 0 : (i - w.size) / w.stride + 1, across0 = j < w.size ? 0 : (j - w.size) / w.stride + 1;
    float sum = 0.0f;
    for (u32 down = down0; down < w.down && down * w.stride <= i; down++) {
        for (u32 across = across0; across < w.across && across * w.stride <= j; across++) {
            u32 row = i - down * w.stride, column = j - across * w.stride;
            u64 window = (image * w.down + down) * w.across + across;
            sum += x[((window * w.size + row) * w.size + column) * w.channels + channel];
        }
    }
    y[index] = sum;
}
