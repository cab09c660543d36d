// C = A B for a small k (a layer whose input is latents), bound by memory: a thread holds the weights of one column in
// registers and goes through the rows.

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
    after_previous();
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

// The weight gradient: C = A^T B where A has few columns, with column sums of B, and optionally Adam's step. A warp takes
// 32 columns of every fourth row. It uses few registers, so that it can run concurrently with the chain, and issues its
// loads early, so that it ends soon.
#define THIN_WARPS 4
#define THIN_BATCH 256
#define THIN_EACH ((THIN_K + THIN_WARPS) / THIN_WARPS)  // sums per thread: rows of C, and the bias

// Pointers to row k of C, or after the last row to the bias, and to their moments.
struct ParamPointers {
    float *w, *m, *v;

    __device__ __forceinline__ ParamPointers(const Product &p, u32 k, u32 restart, u32 column) {
        if (k == p.rows) {
            u64 at = restart * p.sums_stride + column;
            w = p.sums + at, m = p.sums_m + at, v = p.sums_v + at;
        } else {
            u64 moment = restart * p.c_stride + moment_at(k, column, p.rows, p.columns);
            w = p.c + restart * p.c_stride + (u64)k * p.c_ld + column, m = p.m + moment, v = p.v + moment;
        }
    }
};

extern "C" __global__ __launch_bounds__(32 * THIN_WARPS, 8) void thin_weights(Product p) {
    __shared__ float4 x[THIN_BATCH][THIN_K / 4];
    __shared__ float parts[THIN_WARPS][THIN_K + 1][32];
    const int AT_ONCE = 8;
    u32 restart = blockIdx.z, lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    const float *a = p.a + restart * p.a_stride, *b = p.b + restart * p.b_stride + column;
    bool inside = column < p.columns;
    float w[THIN_EACH], m[THIN_EACH], v[THIN_EACH];
#pragma unroll
    for (int i = 0; i < THIN_EACH; i++) {
        u32 k = warp + i * THIN_WARPS;
        if (!inside || k > p.rows || p.epilogue != ADAM) break;
        ParamPointers at(p, k, restart, column);
        w[i] = at.w[0], m[i] = at.m[0], v[i] = at.v[0];
    }
#pragma unroll 8
    for (u32 i = threadIdx.x; i < p.inner * THIN_K; i += 32 * THIN_WARPS) {
        u32 r = i / THIN_K, k = i % THIN_K;
        ((float *)x[r])[k] = k < p.rows ? a[(u64)r * p.a_ld + k] : 0.0f;
    }
    __syncthreads();
    float sums[THIN_K + 1] = {};
#pragma unroll 1
    for (u32 r = warp; r < p.inner; r += AT_ONCE * THIN_WARPS) {
        float y[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            u32 row = r + i * THIN_WARPS;
            y[i] = inside && row < p.inner ? b[(u64)row * p.b_ld] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            u32 row = min(r + i * THIN_WARPS, p.inner - 1);
#pragma unroll
            for (int k = 0; k < THIN_K; k += 4) {
                float4 four = x[row][k / 4];
                sums[k] = fmaf(four.x, y[i], sums[k]), sums[k + 1] = fmaf(four.y, y[i], sums[k + 1]);
                sums[k + 2] = fmaf(four.z, y[i], sums[k + 2]), sums[k + 3] = fmaf(four.w, y[i], sums[k + 3]);
            }
            sums[THIN_K] += y[i];
        }
    }
#pragma unroll
    for (int k = 0; k <= THIN_K; k++) parts[warp][k][lane] = sums[k];
    __syncthreads();
    float step_size = p.clock ? p.clock->step_size[p.group] : p.step_size;
    float inverse_root = p.clock ? p.clock->inverse_root : p.inverse_root;
#pragma unroll
    for (int i = 0; i < THIN_EACH; i++) {
        u32 k = warp + i * THIN_WARPS;
        if (!inside || k > p.rows) break;
        float sum = 0.0f;
        for (u32 part = 0; part < THIN_WARPS; part++) sum += parts[part][k == p.rows ? THIN_K : k][lane];
        ParamPointers at(p, k, restart, column);
        if (p.epilogue == ADAM) {
            adam_update(sum, step_size, inverse_root, p.epsilon, p.beta1, w + i, m + i, v + i);
            at.w[0] = w[i], at.m[0] = m[i], at.v[0] = v[i];
        } else {
            at.w[0] = sum;
        }
    }
}
