// Weight gradients of many restarts, each tile of which goes straight into Adam's step.
//
// They are short of memory's time, not of arithmetic: a tile's parameters and moments are asked for before the
// product and wait in registers, and all of a small batch comes at once. Longer batches, and gradients without a
// step, go the way of product.cu.

#define WHOLE_BATCH 112
#define WHOLE_TILE 64

struct Whole {
    static const int THREADS = 256, STRIDE = WHOLE_TILE + 8, C_STRIDE = WHOLE_TILE + 4;
    static const int FACTOR = WHOLE_BATCH * STRIDE;
    static const int LINE = WHOLE_TILE / 4, APART = THREADS / LINE, EACH = WHOLE_TILE / APART;

    // Adds eight k to a warp's 32 x 16 of the tile. Which row and column of them a lane multiplies is free: so
    // that its four rows, and its two columns, lie side by side in shared memory.
    static __device__ __forceinline__ void use(const float *a, const float *b, float (&sums)[2][2][4]) {
        u32 a_big[2][4], a_rest[2][4], b_big[2][2], b_rest[2][2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float4 four = *(const float4 *)(a + 4 * e * STRIDE);
            float2 two = *(const float2 *)(b + 4 * e * STRIDE);
            float rows[4] = {four.x, four.y, four.z, four.w}, columns[2] = {two.x, two.y};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                a_big[i / 2][i % 2 + 2 * e] = big_part(rows[i]);
                if (TERMS == 3) a_rest[i / 2][i % 2 + 2 * e] = rest_of(rows[i]);
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                b_big[i][e] = big_part(columns[i]);
                if (TERMS == 3) b_rest[i][e] = rest_of(columns[i]);
            }
        }
        if (TERMS == 3) {
#pragma unroll
            for (int i = 0; i < 4; i++) multiply(sums[i / 2][i % 2], a_rest[i / 2], b_big[i % 2]);
#pragma unroll
            for (int i = 0; i < 4; i++) multiply(sums[i / 2][i % 2], a_big[i / 2], b_rest[i % 2]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) multiply(sums[i / 2][i % 2], a_big[i / 2], b_big[i % 2]);
    }

    // Reads that stay where they are written: before the product.
    static __device__ __forceinline__ void ask(Pack<4> &x, const float *from) {
        asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];"
                     : "=f"(x.x[0]), "=f"(x.x[1]), "=f"(x.x[2]), "=f"(x.x[3])
                     : "l"(from));
    }

    // Asks for all rows of a factor's 64 columns, V numbers at a time.
    template <int V>
    static __device__ __forceinline__ void ask_for(u32 to, const float *factor, u32 ld, u32 column, u32 n_columns,
                                                   u32 n_rows) {
        Loader<WHOLE_BATCH, WHOLE_TILE, STRIDE, THREADS, V, true> loader;
        loader.start(factor, ld, column, n_columns);
        loader.next(to, ld, 0, n_rows, WHOLE_BATCH);
    }

    static __device__ __forceinline__ void run(const Product &p) {
        extern __shared__ __align__(16) float shared[];
        u32 restart = blockIdx.z, m0 = blockIdx.y * WHOLE_TILE, n0 = blockIdx.x * WHOLE_TILE;
        u32 base = (u32)__cvta_generic_to_shared(shared);
        const float *from = p.a + restart * p.a_stride;
        if (p.a_wide) ask_for<4>(base, from, p.a_ld, m0, p.rows, p.inner);
        else ask_for<1>(base, from, p.a_ld, m0, p.rows, p.inner);
        ask_for<4>(base + FACTOR * 4, p.b + restart * p.b_stride, p.b_ld, n0, p.columns, p.inner);
        u32 r = threadIdx.x / LINE, c = threadIdx.x % LINE * 4;
        u32 rows_left = m0 + r < p.rows && n0 + c < p.columns ? p.rows - m0 - r : 0;
        u64 at = restart * p.c_stride + (u64)(m0 + r) * p.c_ld + n0 + c;
        Pack<4> w[EACH], m[EACH], v[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (i * APART >= rows_left) continue;
            u64 here = at + (u64)(i * APART) * p.c_ld;
            ask(w[i], p.c + here), ask(m[i], p.m + here), ask(v[i], p.v + here);
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();

        u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        u32 wm = warp / 4 * 32, wn = warp % 4 * 16;
        const float *from_a = shared + t * STRIDE + wm + 4 * g, *from_b = shared + FACTOR + t * STRIDE + wn + 2 * g;
        float sums[2][2][4] = {};
#pragma unroll
        for (u32 k = 0; k < WHOLE_BATCH; k += 8) {
            if (k < p.inner) use(from_a + k * STRIDE, from_b + k * STRIDE, sums);
        }
        bool sums_columns = p.sums && m0 == 0 && threadIdx.x < WHOLE_TILE;
        float column_sum = 0.0f;
        if (sums_columns) {
#pragma unroll 8
            for (u32 k = 0; k < WHOLE_BATCH; k++) column_sum += shared[FACTOR + k * STRIDE + threadIdx.x];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            // Rows 4g.. of the warp's part, columns 4t..: the second number of two columns' fragments is two on.
            int row = i / 2, half = i % 2;
            *(float2 *)(shared + (wm + 4 * g + row) * C_STRIDE + wn + 4 * t + 2 * half) =
                make_float2(sums[row / 2][0][row % 2 * 2 + half], sums[row / 2][1][row % 2 * 2 + half]);
        }
        __syncthreads();

        float step_size = p.clock ? p.clock->step_size[p.group] : p.step_size;
        float inverse_root = p.clock ? p.clock->inverse_root : p.inverse_root;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (i * APART >= rows_left) break;
            u64 here = at + (u64)(i * APART) * p.c_ld;
            Pack<4> x;
            x.load(shared + (r + i * APART) * C_STRIDE + c);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                adam_update(x.x[e], step_size, inverse_root, p.epsilon, p.beta1, &w[i].x[e], &m[i].x[e], &v[i].x[e]);
            }
            w[i].store(p.c + here), m[i].store(p.m + here), v[i].store(p.v + here);
        }
        if (sums_columns && n0 + threadIdx.x < p.columns) {
            u64 here = restart * p.sums_stride + n0 + threadIdx.x;
            adam_update(column_sum, step_size, inverse_root, p.epsilon, p.beta1, p.sums + here, p.sums_m + here, p.sums_v + here);
        }
    }
};

extern "C" __global__ __launch_bounds__(Whole::THREADS, 2) void product_whole_batch(Product p) { Whole::run(p); }
