// C = A op(B) for many restarts or rows on Hopper's asynchronous tensor cores: y = x W + b, and dx = dy W^T.
//
// The tensor cores take one factor from registers and one from shared memory, where each line is a row's k. So the
// product is transposed, C^T = op(B)^T A^T: weights come from registers, and up to 104 rows of the batch are the other
// factor, so that weights are read once. Four of a block's warps load tiles and split rows; each of three groups of four
// warps splits 64 columns of the weights, in registers, and multiplies. The blocks of a cluster split k.
//
// TERMS = 3: products of bf16 pairs, without the product of both remainders: an error of about 2^-18 of each term. The
// accumulation loses about as much, since the tensor cores truncate. So no block adds up more than 1024 k.

#define MANY_ROWS 104
#define MANY_GROUPS 3  // of four warps that multiply
#define MANY_COLUMNS (64 * MANY_GROUPS)
#define MANY_K 32  // a line of 128 bytes

#define FOUR(c, i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define SUMS(c)                                                                                                \
    FOUR(c, 0), FOUR(c, 1), FOUR(c, 2), FOUR(c, 3), FOUR(c, 4), FOUR(c, 5), FOUR(c, 6), FOUR(c, 7), FOUR(c, 8), \
        FOUR(c, 9), FOUR(c, 10), FOUR(c, 11), FOUR(c, 12)
#define SUM_NAMES                                                                                              \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,"  \
    "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51}, "

// Multiplies 64 columns of the weights (16 per warp) by 104 rows, for 8 k.
__device__ __forceinline__ void multiply_tf32(float (&c)[13][4], const u32 (&a)[4], u64 b) {
#if HOPPER
    asm volatile("wgmma.mma_async.sync.aligned.m64n104k8.f32.tf32.tf32 " SUM_NAMES "{%52,%53,%54,%55}, %56, 1, 1, 1;"
                 : SUMS(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

// The same for 16 k.
__device__ __forceinline__ void multiply_bf16(float (&c)[13][4], const u32 (&a)[4], u64 b) {
#if HOPPER
    asm volatile("wgmma.mma_async.sync.aligned.m64n104k16.f32.bf16.bf16 " SUM_NAMES "{%52,%53,%54,%55}, %56, 1, 1, 1, 0;"
                 : SUMS(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

template <bool TB>
struct Many {
    static const int STAGES = 4, GROUP = 128, THREADS = GROUP * (1 + MANY_GROUPS);
    static const int X_BYTES = MANY_ROWS * 128, W_BYTES = 64 * 128, STAGE = X_BYTES + MANY_GROUPS * W_BYTES;
    // Barriers, after the stages: a stage is loaded, is consumed; its rows are split.
    static const int LOADED = STAGES * STAGE, CONSUMED = LOADED + STAGES * 8;
    static const int SPLIT = CONSUMED + STAGES * 8;
    static const int C_STRIDE = MANY_COLUMNS + 4;

    // Converts a stage's rows in place to the form that the products need. TERMS = 3: lines of 32 elements in bf16 and their
    // 32 remainders, with k and k + 4 adjacent, as in a lane's weights. TERMS = 1: the elements rounded to TF32.
    // Lines l and l ^ 5 are processed together: their chunks are in different banks.
    static __device__ __forceinline__ void split(char *rows) {
        const int EACH = 4;
        float4 x[EACH], y[EACH];
        u32 eight = threadIdx.x % 4, l = threadIdx.x / 8 % 4 ^ threadIdx.x / 4 % 2 * 5;
        u32 line = (threadIdx.x / 32 * 8 + l) * 128;
        u32 first = line + (2 * eight ^ l) * 16, second = first ^ 16, half = line + (eight ^ l) * 16;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (i == 3 && threadIdx.x >= 32) break;
            x[i] = *(float4 *)(rows + first + i * 4096), y[i] = *(float4 *)(rows + second + i * 4096);
        }
        // A warp has whole lines, so that this orders its reads before its writes.
        __syncwarp();
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (i == 3 && threadIdx.x >= 32) break;
            float4 a = x[i], b = y[i];
            if (TERMS == 3) {
                Halves p(a.x, b.x), q(a.y, b.y), r(a.z, b.z), s(a.w, b.w);
                *(uint4 *)(rows + half + i * 4096) = make_uint4(p.big, q.big, r.big, s.big);
                *(uint4 *)(rows + (half ^ 64) + i * 4096) = make_uint4(p.rest, q.rest, r.rest, s.rest);
            } else {
                *(uint4 *)(rows + first + i * 4096) = make_uint4(big_part(a.x), big_part(a.y), big_part(a.z), big_part(a.w));
                *(uint4 *)(rows + second + i * 4096) = make_uint4(big_part(b.x), big_part(b.y), big_part(b.z), big_part(b.w));
            }
        }
    }

    // A lane's first and second of its group's 64 columns, chosen to avoid bank conflicts of its reads.
    static __device__ __forceinline__ u32 column_of(u32 second) {
        u32 g = threadIdx.x % 32 / 4, warp = threadIdx.x / 32 % 4;
        return TB ? warp * 16 + g + second * 8 : warp / 2 * 32 + (warp % 2 * 2 + second) * 4 + g % 4 + g / 4 * 16;
    }

    // The position of four columns in a line of the tile, chosen to avoid bank conflicts of the writes.
    static __device__ __forceinline__ u32 position_of(u32 chunk) {
        return TB ? chunk : chunk & ~7u | (chunk & 3) << 1 | chunk >> 2 & 1;
    }

    // A stage's weights in registers, in the layout of the tensor cores.
    struct Weights {
        // TERMS = 1: eight k each. TERMS = 3: sixteen, first the rounded values, then the remainders.
        u32 x[4][4];

        __device__ __forceinline__ void load(const float *w) {
            u32 t = threadIdx.x % 4;
            auto at = [&](int j, int e) {
                u32 column = column_of(e % 2), k = j * 8 + t + (e / 2) * 4;
                // Lines of 32: the k of a column, or one half of the columns of a k.
                return TB ? w[column * 32 + (k ^ column % 8 * 4)]
                          : w[(column / 32 * 32 + k) * 32 + (column % 32 ^ k % 8 * 4)];
            };
            if (TERMS == 1) {
#pragma unroll
                for (int i = 0; i < 16; i++) x[i / 4][i % 4] = big_part(at(i / 4, i % 4));
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    int j = i / 2, h = i % 2;
                    Halves two(at(j, h), at(j, h + 2));
                    x[j / 2][j % 2 * 2 + h] = two.big, x[2 + j / 2][j % 2 * 2 + h] = two.rest;
                }
            }
        }
    };

    // Four warps load tiles and split rows.
    static __device__ __forceinline__ void load_stages(const Map &rows, const Map &weights, char *shared, u32 base, u32 restart,
                                                 u32 m0, u32 n0, u32 first, u32 n_steps) {
        // The loads are issued by several warps, since each takes time.
        u32 warp = threadIdx.x / 32;
        bool issues = threadIdx.x % 32 == 0;
        auto load_weights = [&](u32 s) {
            if (s >= n_steps || !issues) return;
            u32 to = base + s % STAGES * STAGE + X_BYTES, loaded = base + LOADED + s % STAGES * 8;
            u32 k0 = (first + s) * MANY_K;
            if (warp == 0) expect_bytes(loaded, STAGE);
            if (TB) {
                if (warp == 0) load_tile(to, weights, k0, n0, restart, loaded);
            } else {
                for (u32 i = warp; i < MANY_COLUMNS / 32; i += 4) {
                    load_tile(to + i * 4096, weights, n0 + i * 32, k0, restart, loaded);
                }
            }
        };
        auto load_rows = [&](u32 s) {
            if (s >= n_steps || !issues || warp != 3) return;
            u32 to = base + s % STAGES * STAGE, loaded = base + LOADED + s % STAGES * 8;
            load_tile(to, rows, (first + s) * MANY_K, m0, restart, loaded);
        };
        // Weights do not change during the step: they are loaded before the wait.
        for (u32 s = 0; s < STAGES; s++) load_weights(s);
        after_previous();
        for (u32 s = 0; s < STAGES; s++) load_rows(s);
        for (u32 s = 0; s < n_steps; s++) {
            // Stage s - 2 has been consumed: its buffer can be refilled.
            if (s >= 2) {
                wait_stage(base + CONSUMED, s - 2, STAGES);
                load_weights(s - 2 + STAGES), load_rows(s - 2 + STAGES);
            }
            wait_stage(base + LOADED, s, STAGES);
            split(shared + s % STAGES * STAGE);
            fence_async_proxy();
            arrive(base + SPLIT + s % STAGES * 8);
        }
        sync_block();
    }

    static __device__ __forceinline__ void multiply(char *shared, u32 base, u32 n_steps) {
        u32 group = threadIdx.x / GROUP - 1;
        float sums[13][4] = {};
        Weights even, odd;
        auto load = [&](u32 s, Weights &to) {
            if (s >= n_steps) return;
            wait_stage(base + LOADED, s, STAGES);
            to.load((const float *)(shared + s % STAGES * STAGE + X_BYTES + group * W_BYTES));
        };
        auto step = [&](u32 s, const Weights &now, Weights &next) {
            u32 rows = base + s % STAGES * STAGE;
            wait_stage(base + SPLIT, s, STAGES);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            if (TERMS == 3) {
                // The smaller terms first.
#pragma unroll
                for (int j = 0; j < 2; j++) multiply_bf16(sums, now.x[2 + j], describe(rows + j * 32));
#pragma unroll
                for (int j = 0; j < 2; j++) multiply_bf16(sums, now.x[j], describe(rows + 64 + j * 32));
#pragma unroll
                for (int j = 0; j < 2; j++) multiply_bf16(sums, now.x[j], describe(rows + j * 32));
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++) multiply_tf32(sums, now.x[j], describe(rows + j * 32));
            }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            load(s + 1, next);
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (threadIdx.x % 32 == 0) arrive(base + CONSUMED + s % STAGES * 8);
        };
        load(0, even);
        for (u32 s = 0; s < n_steps; s += 2) {
            step(s, even, odd);
            if (s + 1 < n_steps) step(s + 1, odd, even);
        }
        sync_block();
        u32 t = threadIdx.x % 4;
        float *tile = (float *)shared + 2 * t * C_STRIDE;
#pragma unroll
        for (int i = 0; i < 52; i++) {
            u32 column = group * 64 + column_of(i % 4 / 2);
            tile[(8 * (i / 4) + i % 2) * C_STRIDE + position_of(column / 4) * 4 + column % 4] = sums[i / 4][i % 4];
        }
    }

    // Adds up the cluster's tiles in order, applies the epilogue and stores the result. A thread has four columns of every
    // tenth row. It issues the loads for AT_ONCE rows before it uses any, since the latency to other blocks is high.
    template <int BLOCKS, int AT_ONCE>
    static __device__ __forceinline__ void finish(const Product &p, u32 base, u32 restart, u32 m0, u32 n0) {
        const int LINE = MANY_COLUMNS / 4, APART = THREADS / LINE;
        u32 n_blocks = cluster_size(), rank = cluster_rank(), n_rows = min(p.rows - m0, (u32)MANY_ROWS);
        u32 rows_each = (n_rows + n_blocks - 1) / n_blocks, end = min(n_rows, (rank + 1) * rows_each);
        u32 chunk = threadIdx.x % LINE, column = n0 + chunk * 4, row = rank * rows_each + threadIdx.x / LINE;
        if (column >= p.columns || threadIdx.x >= APART * LINE) return;
        bool masks = p.epilogue == MASK, is_relu = p.epilogue == BIAS_RELU;
        float *to = p.c + restart * p.c_stride + (u64)(m0 + row) * p.c_ld + column;
        const float *mask = p.extra + restart * p.extra_stride + (u64)(m0 + row) * p.c_ld + column;
        u32 tile = base + (row * C_STRIDE + position_of(chunk) * 4) * 4;
        Pack<4> bias = {};
        if (p.epilogue == BIAS || is_relu) bias.load(p.extra + restart * p.extra_stride + column);
#pragma unroll 1
        for (u32 done = 0; row + done < end; done += AT_ONCE * APART) {
            Pack<4> x[AT_ONCE], masked[AT_ONCE] = {};
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                x[i] = bias;
                u32 below = done + i * APART;
                if (masks && row + below < end) masked[i].load(mask + below * p.c_ld);
            }
#pragma unroll 1
            for (u32 block = 0; block < n_blocks; block += BLOCKS) {
                float4 parts[BLOCKS][AT_ONCE] = {};
#pragma unroll
                for (int i = 0; i < BLOCKS * AT_ONCE; i++) {
                    u32 b = block + i / AT_ONCE, below = done + i % AT_ONCE * APART;
                    if (b >= n_blocks || row + below >= end) continue;
                    u32 at = tile + below * C_STRIDE * 4;
                    parts[i / AT_ONCE][i % AT_ONCE] = BLOCKS == 1 ? load_own(at) : load_from(at, b);
                }
#pragma unroll
                for (int i = 0; i < BLOCKS * AT_ONCE; i++) {
                    Pack<4> &sum = x[i % AT_ONCE];
                    float4 part = parts[i / AT_ONCE][i % AT_ONCE];
                    sum.x[0] += part.x, sum.x[1] += part.y, sum.x[2] += part.z, sum.x[3] += part.w;
                }
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                u32 below = done + i * APART;
                if (row + below >= end) continue;
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float &o = x[i].x[e];
                    if (masks) o = masked[i].x[e] > 0.0f ? o : 0.0f;
                    if (is_relu) o = fmaxf(o, 0.0f);
                }
                x[i].store(to + below * p.c_ld);
            }
        }
    }

    static __device__ __forceinline__ void run(const Product &p, const Map &rows, const Map &weights) {
#if HOPPER
        extern __shared__ __align__(16) float unaligned[];
        u32 before = (u32)__cvta_generic_to_shared(unaligned), base = (before + 1023) & ~1023u;
        char *shared = (char *)unaligned + (base - before);
        u32 n_blocks = cluster_size(), rank = cluster_rank();
        u32 restart = blockIdx.z, m0 = blockIdx.y * MANY_ROWS, n0 = blockIdx.x / n_blocks * MANY_COLUMNS;
        u32 n_steps = (p.inner + MANY_K - 1) / MANY_K, each = (n_steps + n_blocks - 1) / n_blocks;
        u32 first = min(rank * each, n_steps), last = min(first + each, n_steps);
        if (threadIdx.x == GROUP) prefetch_map(rows), prefetch_map(weights);
        if (threadIdx.x == 0) {
            for (u32 s = 0; s < STAGES; s++) {
                init_barrier(base + LOADED + s * 8, 1);
                init_barrier(base + CONSUMED + s * 8, 4 * MANY_GROUPS);
                init_barrier(base + SPLIT + s * 8, GROUP);
            }
            fence_async_proxy();
        }
        sync_block();
        if (threadIdx.x < GROUP) load_stages(rows, weights, shared, base, restart, m0, n0, first, last - first);
        else multiply(shared, base, last - first);
        sync_cluster();
        if (n_blocks == 1) {
            finish<1, 5>(p, base, restart, m0, n0);
        } else {
            finish<4, 3>(p, base, restart, m0, n0);
            // A block's tile must stay until all blocks have read it.
            sync_cluster_relaxed();
        }
#endif
    }
};

// An eighth of the registers is left for concurrent kernels (the prior, narrow layers): otherwise they would have to wait
// for a free multiprocessor, and the next product for them.
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
#define MANY_BOUNDS(tb) __maxnreg__(112)
#else
#define MANY_BOUNDS(tb) __launch_bounds__(Many<tb>::THREADS, 1)
#endif

#define MANY(name, tb)                                                                        \
    extern "C" __global__ MANY_BOUNDS(tb) void name(                                           \
        Product p, const __grid_constant__ Map rows, const __grid_constant__ Map weights) {   \
        Many<tb>::run(p, rows, weights);                                                       \
    }

MANY(many_product, false)
MANY(many_product_transposed_b, true)
