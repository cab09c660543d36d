// Windows of images, images from windows, and what bends a layer's output; the formulas are in compute/cpu/images.rs and
// compute/cpu/curves.rs.

struct Windows {
    u32 height, width, channels, size, stride, padding;
    u32 down, across;  // how many windows there are
};

// One thread a number of the windows: y [n, down, across, size, size, channels].
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
    // Above and left of the image these wrap round to more than any height or width.
    u32 i = down * w.stride + row - w.padding, j = across * w.stride + column - w.padding;
    bool inside = i < w.height && j < w.width;
    y[index] = inside ? x[((image * w.height + i) * w.width + j) * w.channels + channel] : 0.0f;
}

// One thread a number of the images: y [n, height, width, channels]. Summands in the order of the windows.
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

#define LEAKY 0
#define LOGISTIC 1

extern "C" __global__ void bend(u32 curve, float slope, float *x, u64 n) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i];
    if (curve == LEAKY) {
        x[i] = value > 0.0f ? value : slope * value;
    } else {
        float e = expf(-fabsf(value)), inverse = 1.0f / (1.0f + e);
        x[i] = value >= 0.0f ? inverse : e * inverse;
    }
}

extern "C" __global__ void bend_backward(u32 curve, float slope, const float *y, float *dy, u64 n) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = y[i];
    if (curve == LEAKY) dy[i] = value > 0.0f ? dy[i] : slope * dy[i];
    else dy[i] *= value * (1.0f - value);
}
