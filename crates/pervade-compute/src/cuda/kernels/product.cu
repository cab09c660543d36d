// Matrix products on the tensor cores: C = op(A) op(B) for every restart, with a fused epilogue.
//
// TERMS = 1 rounds both factors to TF32 (10 bits). TERMS = 3 splits each factor x into tf32(x) and the
// remainder, and adds up the three largest products: about 21 of the 24 bits of single precision.
// Tiles of A and B are loaded through a ring of buffers in shared memory. A batch of 100 rows has few tiles, so
// k is split among groups of warps. Their sums are added in shared memory, always in the same order, and
// the epilogue reads and writes whole lines.

// Epilogues: what is applied to the product before it is stored.
#define STORE 0
#define BIAS 1
#define BIAS_RELU 2
#define MASK 3
#define ADAM 4

struct Product {
    const float *a, *b;
    float *c;            // the product, or with ADAM the parameters
    const float *extra;  // BIAS: [N]; MASK: the activations [M, N]
    float *m, *v;        // ADAM: moments, in the order of `moment_at`
    // For a weight gradient: the output for the column sums of B (the bias gradient, or with ADAM the bias itself).
    float *sums, *sums_m, *sums_v;
    u64 a_stride, b_stride, c_stride, extra_stride, sums_stride;  // from one restart to the next
    u32 rows, columns, inner;
    u32 a_ld, b_ld, c_ld;
    u32 a_wide, b_wide, c_wide;  // whether 16 bytes can be copied at a time
    u32 epilogue, group, unused;
    const Clock *clock;
    float step_size, inverse_root, epsilon, beta1;
};

// Starts an asynchronous copy of V elements, or of zeros.
template <int V>
__device__ __forceinline__ void copy_async(u32 to, const float *from, bool valid) {
    if (V == 4) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid ? 4 : 0));
}

// Loads tiles of ROWS x COLUMNS elements of a row-major matrix into shared memory, one step of k at a time; zeros beyond
// its edges. A thread copies the same columns of every APART-th row each time.
template <int ROWS, int COLUMNS, int STRIDE, int THREADS, int V, bool K_IS_ROW>
struct Loader {
    static const int LINE = COLUMNS / V, APART = THREADS / LINE, EACH = ROWS / APART;
    static_assert(THREADS % LINE == 0 && ROWS % APART == 0, "threads divide a tile evenly");
    const float *from, *home;
    u32 to, row, column, limit;
    bool inside;

    // `fixed` is the tile's offset in the dimension that is not k, of size `n_fixed`.
    __device__ __forceinline__ void start(const float *matrix, u32 ld, u32 fixed, u32 n_fixed) {
        row = threadIdx.x / LINE, column = threadIdx.x % LINE * V;
        to = (row * STRIDE + column) * 4;
        home = matrix;
        from = matrix + (K_IS_ROW ? (u64)row * ld + fixed + column : (u64)(fixed + row) * ld + column);
        inside = K_IS_ROW ? fixed + column < n_fixed : false;
        // The number of existing rows of the tile, if rows are not k.
        limit = K_IS_ROW ? 0 : n_fixed - fixed;
    }

    __device__ __forceinline__ void next(u32 stage, u32 ld, u32 k0, u32 inner, int step) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            u32 r = row + i * APART;
            bool valid = K_IS_ROW ? inside && k0 + r < inner : r < limit && k0 + column < inner;
            const float *at = from + (u64)(i * APART) * ld;
            copy_async<V>(stage + to + i * APART * STRIDE * 4, valid ? at : home, valid);
        }
        from += K_IS_ROW ? (u64)step * ld : (u64)step;
    }
};

// The tensor cores use the first ten mantissa bits and ignore the others. TERMS = 1: the value is rounded to ten bits.
// TERMS = 3: the ignored bits become a second factor.
__device__ __forceinline__ u32 big_part(float x) { return __float_as_uint(x) + (TERMS == 1 ? 0x1000u : 0u); }

__device__ __forceinline__ u32 rest_of(float x) {
    return __float_as_uint(x - __uint_as_float(__float_as_uint(x) & 0xffffe000u));
}

// Two values rounded to bf16 (seven mantissa bits), packed into a word.
__device__ __forceinline__ u32 round_two(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Two values in bf16, and their remainders, also in bf16: together 16 or 17 bits. Products of these take half as long as
// those of TF32.
struct Halves {
    u32 big, rest;

    __device__ __forceinline__ Halves() {}

    __device__ __forceinline__ Halves(float low, float high) : big(round_two(low, high)) {
        rest = round_two(low - __uint_as_float(big << 16), high - __uint_as_float(big & 0xffff0000u));
    }
};

__device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// BM x BN: a block's tile of C; BK: the k of a stage; STAGES: the number of stages;
// WM x WN: a warp's part of the tile; WK: groups of warps that split k; SPLIT_K: whether the blocks of a cluster also
// split k. TA, TB: whether A is stored [K, M], and B [N, K].
template <int BM, int BN, int BK, int STAGES, int WM, int WN, int WK, bool SPLIT_K, bool TA, bool TB>
struct Tile {
    static const int WARPS_M = BM / WM, WARPS_N = BN / WN, THREADS = 32 * WARPS_M * WARPS_N * WK;
    // Strides that avoid bank conflicts of a warp's reads.
    static const int A_STRIDE = TA ? BM + 8 : BK + 4, B_STRIDE = TB ? BK + 4 : BN + 8, C_STRIDE = BN + 4;
    static const int A_LEN = (TA ? BK : BM) * A_STRIDE, B_LEN = (TB ? BN : BK) * B_STRIDE;
    static const int STAGE = A_LEN + B_LEN;
    static const int MI = WM / 16, NI = WN / 8;

    // Adds eight k of a stage to the sums. A warp's products are ordered so that none depends on the one before.
    static __device__ __forceinline__ void accumulate(const float *stage, float (&sums)[MI][NI][4], u32 wm, u32 wn, u32 k) {
        u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const float *a = stage, *b = stage + A_LEN;
        u32 a_big[MI][4], b_big[NI][2];
        u32 a_rest[MI][4], b_rest[NI][2];
#pragma unroll
        for (int mi = 0; mi < MI; mi++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                u32 row = wm + mi * 16 + g + (e % 2) * 8, kk = k + t + (e / 2) * 4;
                float x = TA ? a[kk * A_STRIDE + row] : a[row * A_STRIDE + kk];
                a_big[mi][e] = big_part(x);
                if (TERMS == 3) a_rest[mi][e] = rest_of(x);
            }
        }
#pragma unroll
        for (int ni = 0; ni < NI; ni++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                u32 column = wn + ni * 8 + g, kk = k + t + e * 4;
                float x = TB ? b[column * B_STRIDE + kk] : b[kk * B_STRIDE + column];
                b_big[ni][e] = big_part(x);
                if (TERMS == 3) b_rest[ni][e] = rest_of(x);
            }
        }
        if (TERMS == 3) {
#pragma unroll
            for (int i = 0; i < MI * NI; i++) multiply(sums[i / NI][i % NI], a_rest[i / NI], b_big[i % NI]);
#pragma unroll
            for (int i = 0; i < MI * NI; i++) multiply(sums[i / NI][i % NI], a_big[i / NI], b_rest[i % NI]);
        }
#pragma unroll
        for (int i = 0; i < MI * NI; i++) multiply(sums[i / NI][i % NI], a_big[i / NI], b_big[i % NI]);
    }

    // Stores the sums of each group of warps, as [WK][BM][C_STRIDE].
    static __device__ __forceinline__ void store_sums(float *tile, const float (&sums)[MI][NI][4], u32 group, u32 wm, u32 wn) {
        u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int mi = 0; mi < MI; mi++) {
#pragma unroll
            for (int ni = 0; ni < NI; ni++) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    u32 row = wm + mi * 16 + g + half * 8, column = wn + ni * 8 + 2 * t;
                    float *to = tile + (group * BM + row) * C_STRIDE + column;
                    to[0] = sums[mi][ni][2 * half], to[1] = sums[mi][ni][2 * half + 1];
                }
            }
        }
    }

    // Adds up the sums of all groups of warps, then of all blocks of the cluster, in the first block's first tile.
    static __device__ __forceinline__ void add_up(float *tile, u32 base, u32 n_blocks, u32 rank) {
        const int LINE = BN / 4;
        for (int i = threadIdx.x; i < BM * LINE; i += THREADS) {
            float *at = tile + i / LINE * C_STRIDE + i % LINE * 4;
            Pack<4> x;
            x.load(at);
            for (int group = 1; group < WK; group++) {
                Pack<4> other;
                other.load(at + group * BM * C_STRIDE);
                for (int e = 0; e < 4; e++) x.x[e] += other.x[e];
            }
            x.store(at);
        }
        sync_cluster();
        if (rank == 0) {
            for (int i = threadIdx.x; i < BM * LINE; i += THREADS) {
                u32 at = i / LINE * C_STRIDE + i % LINE * 4;
                Pack<4> x;
                x.load(tile + at);
                for (u32 block = 1; block < n_blocks; block++) {
                    float4 part = load_from(base + at * 4, block);
                    x.x[0] += part.x, x.x[1] += part.y, x.x[2] += part.z, x.x[3] += part.w;
                }
                x.store(tile + at);
            }
        }
        // A block's tile must stay until it has been read. The epilogue's threads read sums of other threads of their
        // block, which the relaxed cluster barrier does not order.
        sync_cluster_relaxed();
        __syncthreads();
    }

    // Applies the epilogue to the tile and stores it, V elements at a time. A thread issues all its loads before it uses
    // any.
    template <int V>
    static __device__ __forceinline__ void finish(const Product &p, const float *tile, u32 restart, u32 m0, u32 n0) {
        const int LINE = BN / V, AT_ONCE = 2;
        static_assert(!TA || BM == 64 && BN == 64, "a weight gradient's tile is a tile of moments");
        u32 width = min(p.columns - n0, (u32)BN);
        u64 moments = restart * p.c_stride + moment_at(m0, n0, p.rows, p.columns);
        float step_size = p.step_size, inverse_root = p.inverse_root;
        if (p.epilogue == ADAM && p.clock) step_size = p.clock->step_size[p.group], inverse_root = p.clock->inverse_root;
        for (int start = threadIdx.x; start < BM * LINE; start += AT_ONCE * THREADS) {
            Pack<V> x[AT_ONCE], y[AT_ONCE], m[AT_ONCE], v[AT_ONCE];
            u64 at[AT_ONCE];
            bool valid[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                int index = start + i * THREADS, r = index / LINE, c = index % LINE * V;
                u32 row = m0 + r, column = n0 + c;
                valid[i] = index < BM * LINE && row < p.rows && column < p.columns;
                at[i] = restart * p.c_stride + (u64)row * p.c_ld + column;
                if (!valid[i]) continue;
                if (p.epilogue == ADAM) {
                    u64 moment = moments + index_in_tile(r, c, width);
                    y[i].load(p.c + at[i]);
                    m[i].load(p.m + moment);
                    v[i].load(p.v + moment);
                } else if (p.epilogue == MASK) {
                    y[i].load(p.extra + restart * p.extra_stride + (u64)row * p.c_ld + column);
                } else if (p.epilogue != STORE) {
                    y[i].load(p.extra + restart * p.extra_stride + column);
                }
                x[i].load(tile + r * C_STRIDE + c);
#pragma unroll
                for (int group = 1; group < (SPLIT_K ? 1 : WK); group++) {
                    Pack<V> other;
                    other.load(tile + (group * BM + r) * C_STRIDE + c);
#pragma unroll
                    for (int e = 0; e < V; e++) x[i].x[e] += other.x[e];
                }
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                if (!valid[i]) continue;
#pragma unroll
                for (int e = 0; e < V; e++) {
                    float &o = x[i].x[e], &other = y[i].x[e];
                    if (p.epilogue == ADAM) {
                        adam_update(o, step_size, inverse_root, p.epsilon, p.beta1, &other, &m[i].x[e], &v[i].x[e]);
                        o = other;
                    } else if (p.epilogue == MASK) {
                        o = other > 0.0f ? o : 0.0f;
                    } else if (p.epilogue != STORE) {
                        o += other;
                        if (p.epilogue == BIAS_RELU) o = fmaxf(o, 0.0f);
                    }
                }
                x[i].store(p.c + at[i]);
                if (p.epilogue == ADAM) {
                    int index = start + i * THREADS;
                    u64 moment = moments + index_in_tile(index / LINE, index % LINE * V, width);
                    m[i].store(p.m + moment);
                    v[i].store(p.v + moment);
                }
            }
        }
    }

    // Prefetches the parameters and moments of the epilogue while the product is computed.
    static __device__ __forceinline__ void prefetch_parameters(const Product &p, u32 restart, u32 m0, u32 n0) {
        const int LINES = BN / 32;
        u32 width = min(p.columns - n0, (u32)BN);
        u64 moments = restart * p.c_stride + moment_at(m0, n0, p.rows, p.columns);
        for (u32 t = threadIdx.x; t < BM * LINES; t += THREADS) {
            u32 row = m0 + t / LINES, column = n0 + t % LINES * 32;
            if (row >= p.rows || column >= p.columns) continue;
            u64 at = restart * p.c_stride + (u64)row * p.c_ld + column;
            u64 moment = moments + index_in_tile(row - m0, column - n0, width);
            asm volatile("prefetch.global.L2 [%0];" ::"l"(p.c + at));
            asm volatile("prefetch.global.L2 [%0];" ::"l"(p.m + moment));
            asm volatile("prefetch.global.L2 [%0];" ::"l"(p.v + moment));
        }
    }

    // The sum of a column of B is the gradient of its bias.
    static __device__ __forceinline__ void finish_sum(const Product &p, float sum, u32 restart, u32 column) {
        if (column >= p.columns) return;
        u64 at = restart * p.sums_stride + column;
        if (p.epilogue == ADAM) {
            float step_size = p.clock ? p.clock->step_size[p.group] : p.step_size;
            float inverse_root = p.clock ? p.clock->inverse_root : p.inverse_root;
            adam_update(sum, step_size, inverse_root, p.epsilon, p.beta1, p.sums + at, p.sums_m + at, p.sums_v + at);
        } else {
            p.sums[at] = sum;
        }
    }

    template <int V>
    static __device__ __forceinline__ void run_with(const Product &p) {
        extern __shared__ __align__(16) float shared[];
        u32 n_blocks = SPLIT_K ? cluster_size() : 1, rank = SPLIT_K ? cluster_rank() : 0;
        u32 restart = blockIdx.z, m0 = blockIdx.y * BM, n0 = blockIdx.x / n_blocks * BN;
        u32 warp = threadIdx.x / 32, group = warp / (WARPS_M * WARPS_N), position = warp % (WARPS_M * WARPS_N);
        u32 wm = position / WARPS_N * WM, wn = position % WARPS_N * WN;
        u32 all = (p.inner + BK - 1) / BK, each = (all + n_blocks - 1) / n_blocks, first = min(rank * each, all);
        u32 n_steps = min(each, all - first), inner = p.inner - min(first * BK, p.inner);
        Loader<TA ? BK : BM, TA ? BM : BK, A_STRIDE, THREADS, V, TA> a;
        Loader<TB ? BN : BK, TB ? BK : BN, B_STRIDE, THREADS, V, !TB> b;
        a.start(p.a + restart * p.a_stride + (u64)(first * BK) * (TA ? p.a_ld : 1), p.a_ld, m0, p.rows);
        b.start(p.b + restart * p.b_stride + (u64)(first * BK) * (TB ? 1 : p.b_ld), p.b_ld, n0, p.columns);
        u32 base = (u32)__cvta_generic_to_shared(shared);
        if (p.epilogue == ADAM) prefetch_parameters(p, restart, m0, n0);
        float sums[MI][NI][4] = {};
        bool sums_columns = TA && p.sums && blockIdx.y == 0 && threadIdx.x < BN;
        float column_sum = 0.0f;
        // Weights do not change during the step: all of the first stages are asked for before the wait, in groups of their
        // own, so that the first rows to arrive do not wait for the last weights. Only kernels of the main stream start early.
        if (!TA) {
#pragma unroll
            for (u32 s = 0; s < STAGES - 1; s++) {
                if (s < n_steps) b.next(base + (s * STAGE + A_LEN) * 4, p.b_ld, s * BK, inner, BK);
                asm volatile("cp.async.commit_group;");
            }
            after_previous();
        }
#pragma unroll
        for (u32 s = 0; s < STAGES - 1; s++) {
            if (s < n_steps) {
                a.next(base + s * STAGE * 4, p.a_ld, s * BK, inner, BK);
                if (TA) b.next(base + (s * STAGE + A_LEN) * 4, p.b_ld, s * BK, inner, BK);
            }
            asm volatile("cp.async.commit_group;");
        }
        for (u32 s = 0; s < n_steps; s++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
            __syncthreads();
            u32 ahead = s + STAGES - 1;
            if (ahead < n_steps) {
                u32 stage = base + ahead % STAGES * STAGE * 4;
                a.next(stage, p.a_ld, ahead * BK, inner, BK);
                b.next(stage + A_LEN * 4, p.b_ld, ahead * BK, inner, BK);
            }
            asm volatile("cp.async.commit_group;");
            const float *stage = shared + s % STAGES * STAGE;
#pragma unroll
            for (u32 k = 0; k < BK / 8; k += WK) accumulate(stage, sums, wm, wn, (k + group) * 8);
            if (sums_columns) {
#pragma unroll 8
                for (u32 k = 0; k < BK; k++) column_sum += stage[A_LEN + k * B_STRIDE + threadIdx.x];
            }
        }
        asm volatile("cp.async.wait_all;");
        __syncthreads();
        store_sums(shared, sums, group, wm, wn);
        __syncthreads();
        if (SPLIT_K) add_up(shared, base, n_blocks, rank);
        if (rank != 0) return;
        if (p.c_wide) finish<4>(p, shared, restart, m0, n0);
        else finish<1>(p, shared, restart, m0, n0);
        if (sums_columns) finish_sum(p, column_sum, restart, n0 + threadIdx.x);
    }

    static __device__ __forceinline__ void run(const Product &p) {
        if (p.a_wide && p.b_wide) run_with<4>(p);
        else run_with<1>(p);
    }
};

// SMALL: all warps of a block split k. MEDIUM: the same with twice the rows, for one wave of blocks. LARGE: larger tiles read
// less. WEIGHTS: k is the batch.
#define SMALL 16, 32, 64, 5, 16, 32, 8, false
#define CLUSTER 16, 32, 64, 5, 16, 32, 8, true
#define MEDIUM 32, 32, 64, 5, 32, 32, 8, false
#define LARGE 64, 32, 32, 4, 32, 32, 4, false
#define WEIGHTS 64, 64, 32, 3, 32, 32, 1, false
#define KERNEL(name, blocks, ta, tb, ...)                                                                      \
    extern "C" __global__ __launch_bounds__(Tile<__VA_ARGS__, ta, tb>::THREADS, blocks) void name(Product p) { \
        Tile<__VA_ARGS__, ta, tb>::run(p);                                                                     \
    }

KERNEL(product_small, 2, false, false, SMALL)
KERNEL(product_cluster, 2, false, false, CLUSTER)
KERNEL(product_transposed_b_cluster, 2, false, true, CLUSTER)
KERNEL(product_medium, 2, false, false, MEDIUM)
KERNEL(product_transposed_b_medium, 2, false, true, MEDIUM)
KERNEL(product_large, 3, false, false, LARGE)
KERNEL(product_transposed_b_small, 2, false, true, SMALL)
KERNEL(product_transposed_b_large, 3, false, true, LARGE)
KERNEL(product_transposed_a, 4, true, false, WEIGHTS)
