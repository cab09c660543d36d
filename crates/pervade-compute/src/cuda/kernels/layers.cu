// Dropout, activations, and Adam over flat ranges.

extern "C" __global__ void dropout(Keys keys, const Clock *clock, u64 draw, u32 threshold, float keep, const float *x,
                                   float *y, u32 rows, u32 columns) {
    after_previous();
    u32 quads = (columns + 3) / 4, restart = blockIdx.y;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * quads) return;
    u32 row = index / quads, quad = index % quads;
    u64 step = draw + (clock ? clock->draw : 0);
    uint4 w = philox(step, row, quad, keys.words[2 * restart], keys.words[2 * restart + 1]);
    u32 words[4] = {w.x, w.y, w.z, w.w};
    u64 base = ((u64)restart * rows + row) * columns;
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        u32 column = 4 * quad + k;
        if (column < columns) y[base + column] = words[k] < threshold ? 0.0f : x[base + column] * keep;
    }
}

extern "C" __global__ void adam(float *p, const float *g, float *m, float *v, u64 stride, u64 n, const Clock *clock,
                                u32 group, float step_size, float inverse_root, float epsilon, float beta1) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i += blockIdx.y * stride;
    if (clock) step_size = clock->step_size[group], inverse_root = clock->inverse_root;
    adam_update(g[i], step_size, inverse_root, epsilon, beta1, p + i, m + i, v + i);
}

extern "C" __global__ void average(const float *from, float *into, u64 n) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) into[i] = 0.5f * (into[i] + from[i]);
}

// Averages neighbouring slices of `stride` elements, then neighbouring averages, and so on; the result is in the first.
extern "C" __global__ void average_slices(float *slices, u32 n_slices, u64 stride, u64 n) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (u32 distance = 1; distance < n_slices; distance *= 2) {
        for (u32 left = 0; left + distance < n_slices; left += 2 * distance) {
            float *into = slices + left * stride + i;
            *into = 0.5f * (*into + into[distance * stride]);
        }
    }
}

#define LEAKY_RELU 0
#define SIGMOID 1

extern "C" __global__ void activate(u32 kind, float slope, float *x, u64 n) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i];
    if (kind == LEAKY_RELU) {
        x[i] = value > 0.0f ? value : slope * value;
    } else {
        float e = expf(-fabsf(value)), inverse = 1.0f / (1.0f + e);
        x[i] = value >= 0.0f ? inverse : e * inverse;
    }
}

extern "C" __global__ void activate_backward(u32 kind, float slope, const float *y, float *dy, u64 n) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = y[i];
    if (kind == LEAKY_RELU) dy[i] = value > 0.0f ? dy[i] : slope * dy[i];
    else dy[i] *= value * (1.0f - value);
}
