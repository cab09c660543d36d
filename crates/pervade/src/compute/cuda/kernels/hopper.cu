// C = A op(B) for many restarts or rows on Hopper's tensor cores, which work while the warps that feed them go
// on: y = x W + b, and dx = dy W^T.
//
// They take one factor from registers and one from shared memory, each line of which is a row's k. So the
// product is turned round, C^T = op(B)^T A^T: weights come from registers, and up to 104 rows of the batch are the
// other side, so that weights are read once. Of a block's warps four bring tiles and split rows; three groups of four
// split 64 columns of the weights each, in registers, and multiply. The blocks of a cluster share out k.
//
// TERMS = 3: the numbers themselves, of which the tensor cores read the first ten bits, and two products that
// make up for the rest: what was passed over times the other factor, both rounded to bf16 (seven bits, at twice the
// speed), which is off by about 2^-19 of each term. More is lost where sums are added up: the tensor cores cut
// off what does not fit. So no block adds up more than 1024 k.

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

// 64 columns of the weights (16 a warp) by 104 rows, 8 k of them.
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

// Two numbers rounded to bf16, in a word.
__device__ __forceinline__ u32 round_two(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ float float_rest(float x) { return __uint_as_float(rest_of(x)); }

template <bool TB>
struct Many {
    static const int STAGES = 4, GROUP = 128, THREADS = GROUP * (1 + MANY_GROUPS);
    static const int X_BYTES = MANY_ROWS * 128, W_BYTES = 64 * 128, STAGE = X_BYTES + MANY_GROUPS * W_BYTES;
    // After the stages two buffers of split rows, and counters: a stage is there, is used up; rows are split.
    static const int SPLIT = STAGES * STAGE, THERE = SPLIT + 2 * X_BYTES, USED = THERE + STAGES * 8;
    static const int READY = USED + STAGES * 8;
    static const int C_STRIDE = MANY_COLUMNS + 4;

    // A stage's rows as the products of TERMS = 3 need them beside the numbers themselves: lines of 32 numbers
    // and 32 rests, k and k + 4 beside each other, as a lane has them of the weights. TERMS = 1: the numbers
    // are rounded where they are. Lines l and l ^ 5 go together: their chunks lie in different banks.
    static __device__ __forceinline__ void split(char *rows, char *to) {
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
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (i == 3 && threadIdx.x >= 32) break;
            float4 a = x[i], b = y[i];
            if (TERMS == 3) {
                *(uint4 *)(to + half + i * 4096) =
                    make_uint4(round_two(a.x, b.x), round_two(a.y, b.y), round_two(a.z, b.z), round_two(a.w, b.w));
                *(uint4 *)(to + (half ^ 64) + i * 4096) =
                    make_uint4(round_two(float_rest(a.x), float_rest(b.x)), round_two(float_rest(a.y), float_rest(b.y)),
                               round_two(float_rest(a.z), float_rest(b.z)), round_two(float_rest(a.w), float_rest(b.w)));
            } else {
                *(uint4 *)(rows + first + i * 4096) = make_uint4(big_part(a.x), big_part(a.y), big_part(a.z), big_part(a.w));
                *(uint4 *)(rows + second + i * 4096) = make_uint4(big_part(b.x), big_part(b.y), big_part(b.z), big_part(b.w));
            }
        }
    }

    // Which of its group's 64 columns a lane has first and second: so that its reads meet all banks.
    static __device__ __forceinline__ u32 column_of(u32 second) {
        u32 g = threadIdx.x % 32 / 4, warp = threadIdx.x / 32 % 4;
        return TB ? warp * 16 + g + second * 8 : warp / 2 * 32 + (warp % 2 * 2 + second) * 4 + g % 4 + g / 4 * 16;
    }

    // A stage's weights in registers.
    struct Weights {
        float x[4][4];

        __device__ __forceinline__ void load(const float *w) {
            u32 t = threadIdx.x % 4;
#pragma unroll
            for (int i = 0; i < 16; i++) {
                int e = i % 4;
                u32 column = column_of(e % 2), k = i / 4 * 8 + t + (e / 2) * 4;
                // Lines of 32: a column's k, or the columns of a k, of which there are two times 32.
                x[i / 4][e] = TB ? w[column * 32 + (k ^ column % 8 * 4)]
                                 : w[(column / 32 * 32 + k) * 32 + (column % 32 ^ k % 8 * 4)];
            }
        }

        __device__ __forceinline__ void split(u32 (&big)[2][4], u32 (&rest)[2][4]) {
            if (TERMS == 1) {
#pragma unroll
                for (int i = 0; i < 16; i++) x[i / 4][i % 4] = __uint_as_float(big_part(x[i / 4][i % 4]));
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    int j = i / 2, h = i % 2;
                    big[j / 2][j % 2 * 2 + h] = round_two(x[j][h], x[j][h + 2]);
                    rest[j / 2][j % 2 * 2 + h] = round_two(float_rest(x[j][h]), float_rest(x[j][h + 2]));
                }
            }
        }
    };

    // Four warps ask for tiles and split rows.
    static __device__ __forceinline__ void bring(const Map &rows, const Map &weights, char *shared, u32 base, u32 restart,
                                                 u32 m0, u32 n0, u32 first, u32 n_steps) {
        // The warps share out what is asked for: asking takes time.
        u32 warp = threadIdx.x / 32;
        bool asks = threadIdx.x % 32 == 0;
        auto ask_weights = [&](u32 s) {
            if (s >= n_steps || !asks) return;
            u32 to = base + s % STAGES * STAGE + X_BYTES, there = base + THERE + s % STAGES * 8;
            u32 k0 = (first + s) * MANY_K;
            if (warp == 0) expect(there, STAGE);
            if (TB) {
                if (warp == 0) copy_tile(to, weights, k0, n0, restart, there);
            } else {
                for (u32 i = warp; i < MANY_COLUMNS / 32; i += 4) {
                    copy_tile(to + i * 4096, weights, n0 + i * 32, k0, restart, there);
                }
            }
        };
        auto ask_rows = [&](u32 s) {
            if (s >= n_steps || !asks || warp != 3) return;
            u32 to = base + s % STAGES * STAGE, there = base + THERE + s % STAGES * 8;
            copy_tile(to, rows, (first + s) * MANY_K, m0, restart, there);
        };
        // Weights were there before the step began.
        for (u32 s = 0; s < STAGES; s++) ask_weights(s);
        after_previous();
        for (u32 s = 0; s < STAGES; s++) ask_rows(s);
        for (u32 s = 0; s < n_steps; s++) {
            // The last stage but one is used up: so are its split rows, and it has room for another.
            if (s >= 2) {
                wait_stage(base + USED, s - 2, STAGES);
                ask_weights(s - 2 + STAGES), ask_rows(s - 2 + STAGES);
            }
            wait_stage(base + THERE, s, STAGES);
            split(shared + s % STAGES * STAGE, shared + SPLIT + s % 2 * X_BYTES);
            show_engine();
            arrive(base + READY + s % 2 * 8);
        }
        meet();
    }

    static __device__ __forceinline__ void multiply(char *shared, u32 base, u32 n_steps) {
        u32 group = threadIdx.x / GROUP - 1;
        float sums[13][4] = {};
        u32 big[2][4], rest[2][4];
        Weights even, odd;
        auto load = [&](u32 s, Weights &to) {
            if (s >= n_steps) return;
            wait_stage(base + THERE, s, STAGES);
            to.load((const float *)(shared + s % STAGES * STAGE + X_BYTES + group * W_BYTES));
        };
        // Products of different shapes are not kept in order by the hardware: they must not meet in the sums. So
        // each waits for the one before, and the other groups fill the gap.
        auto step = [&](u32 s, const Weights &now, Weights &next) {
            u32 rows = base + s % STAGES * STAGE, halves = base + SPLIT + s % 2 * X_BYTES;
            wait_stage(base + READY, s, 2);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            if (TERMS == 3) {
#pragma unroll
                for (int j = 0; j < 2; j++) multiply_bf16(sums, rest[j], describe(halves + j * 32));
#pragma unroll
                for (int j = 0; j < 2; j++) multiply_bf16(sums, big[j], describe(halves + 64 + j * 32));
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                load(s + 1, next);
                asm volatile("wgmma.wait_group.sync.aligned 0;\nwgmma.fence.sync.aligned;" ::: "memory");
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 raw[4] = {__float_as_uint(now.x[j][0]), __float_as_uint(now.x[j][1]), __float_as_uint(now.x[j][2]),
                              __float_as_uint(now.x[j][3])};
                multiply_tf32(sums, raw, describe(rows + j * 32));
            }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            if (TERMS == 1) load(s + 1, next);
            next.split(big, rest);
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (threadIdx.x % 32 == 0) arrive(base + USED + s % STAGES * 8);
        };
        load(0, even);
        even.split(big, rest);
        for (u32 s = 0; s < n_steps; s += 2) {
            step(s, even, odd);
            if (s + 1 < n_steps) step(s + 1, odd, even);
        }
        meet();
        u32 t = threadIdx.x % 4;
        float *tile = (float *)shared + group * 64 + 2 * t * C_STRIDE;
#pragma unroll
        for (int i = 0; i < 52; i++) {
            tile[(8 * (i / 4) + i % 2) * C_STRIDE + column_of(i % 4 / 2)] = sums[i / 4][i % 4];
        }
    }

    // The sum of the cluster's tiles, in their order, through the epilogue to memory.
    static __device__ __forceinline__ void finish(const Product &p, u32 tile, u32 restart, u32 m0, u32 n0) {
        const int LINE = MANY_COLUMNS / 4, AT_ONCE = 3;
        u32 n_rows = min(p.rows - m0, (u32)MANY_ROWS), n_blocks = cluster_size(), rank = cluster_rank();
        u32 rows_each = (n_rows + n_blocks - 1) / n_blocks, begin = rank * rows_each;
        u32 end = min(n_rows, begin + rows_each);
        for (u32 start = begin * LINE + threadIdx.x; start < end * LINE; start += AT_ONCE * THREADS) {
            Pack<4> x[AT_ONCE] = {}, other[AT_ONCE] = {};
            u64 at[AT_ONCE];
            bool valid[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                u32 index = start + i * THREADS, r = index / LINE, c = index % LINE * 4;
                valid[i] = index < end * LINE && n0 + c < p.columns;
                at[i] = (u64)(m0 + r) * p.c_ld + n0 + c;
                if (!valid[i]) continue;
                if (p.epilogue == MASK) other[i].load(p.extra + restart * p.extra_stride + at[i]);
                else if (p.epilogue != STORE) other[i].load(p.extra + restart * p.extra_stride + n0 + c);
            }
            for (u32 block = 0; block < n_blocks; block++) {
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++) {
                    u32 index = start + i * THREADS, r = index / LINE, c = index % LINE * 4;
                    if (!valid[i]) continue;
                    float4 part = load_from(tile + (r * C_STRIDE + c) * 4, block);
                    x[i].x[0] += part.x, x[i].x[1] += part.y, x[i].x[2] += part.z, x[i].x[3] += part.w;
                }
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                if (!valid[i]) continue;
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float &o = x[i].x[e];
                    if (p.epilogue == MASK) o = other[i].x[e] > 0.0f ? o : 0.0f;
                    else o += other[i].x[e];
                    if (p.epilogue == BIAS_RELU) o = fmaxf(o, 0.0f);
                }
                x[i].store(p.c + restart * p.c_stride + at[i]);
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
        if (threadIdx.x == 0) {
            for (u32 s = 0; s < STAGES; s++) {
                start_counter(base + THERE + s * 8, 1);
                start_counter(base + USED + s * 8, 4 * MANY_GROUPS);
            }
            for (u32 s = 0; s < 2; s++) start_counter(base + READY + s * 8, GROUP);
            show_engine();
        }
        meet();
        if (threadIdx.x < GROUP) bring(rows, weights, shared, base, restart, m0, n0, first, last - first);
        else multiply(shared, base, last - first);
        meet_cluster();
        finish(p, base, restart, m0, n0);
        // A block's tile stays until all have read it.
        if (n_blocks > 1) meet_cluster();
#endif
    }
};

#define MANY(name, tb)                                                                        \
    extern "C" __global__ __launch_bounds__(Many<tb>::THREADS, 1) void name(                   \
        Product p, const __grid_constant__ Map rows, const __grid_constant__ Map weights) {   \
        Many<tb>::run(p, rows, weights);                                                       \
    }

MANY(many_product, false)
MANY(many_product_transposed_b, true)
