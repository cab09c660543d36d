// C = A B where k is a handful (a layer that latents enter): hardly more multiply-adds than numbers to write. So a
// thread keeps the weights of one column in registers and goes down the rows.

#define THIN_K 16
#define THIN_COLUMNS 128
#define THIN_ROWS 25

extern "C" __global__ __launch_bounds__(THIN_COLUMNS) void thin(Product p) {
    __shared__ float4 rows[THIN_ROWS][THIN_K / 4];
    u32 restart = blockIdx.z, m0 = blockIdx.y * THIN_ROWS, column = blockIdx.x * THIN_COLUMNS + threadIdx.x;
    u32 n_rows = min(p.rows - m0, (u32)THIN_ROWS);
    const float *a = p.a + restart * p.a_stride + (u64)m0 * p.a_ld, *b = p.b + restart * p.b_stride + column;
    bool inside = column < p.columns;
    float w[THIN_K];
#pragma unroll
    for (u32 k = 0; k < THIN_K; k++) w[k] = inside && k < p.inner ? b[(u64)k * p.b_ld] : 0.0f;
    for (u32 i = threadIdx.x; i < n_rows * THIN_K; i += THIN_COLUMNS) {
        u32 r = i / THIN_K, k = i % THIN_K;
        ((float *)rows[r])[k] = k < p.inner ? a[(u64)r * p.a_ld + k] : 0.0f;
    }
    __syncthreads();
    if (!inside) return;
    float bias = p.epilogue == STORE ? 0.0f : p.extra[restart * p.extra_stride + column];
    float *c = p.c + restart * p.c_stride + (u64)m0 * p.c_ld + column;
    for (u32 r = 0; r < n_rows; r++) {
        float sum = 0.0f;
#pragma unroll
        for (u32 k = 0; k < THIN_K; k += 4) {
            float4 x = rows[r][k / 4];
            sum = fmaf(x.x, w[k], sum), sum = fmaf(x.y, w[k + 1], sum);
            sum = fmaf(x.z, w[k + 2], sum), sum = fmaf(x.w, w[k + 3], sum);
        }
        sum += bias;
        c[(u64)r * p.c_ld] = p.epilogue == BIAS_RELU ? fmaxf(sum, 0.0f) : sum;
    }
}
