// Weight gradients of many restarts, each tile of which is used for Adam's step at once: all layers of a step in one or
// two launches, on Hopper.
//
// They are bound by memory bandwidth, not arithmetic. So one block per multiprocessor goes from tile to tile: one thread
// has the copy engine load parameters and moments two tiles ahead, eight warps multiply and take Adam's step in shared
// memory, and one thread has the results stored.

struct alignas(128) Layer {
    Map x, dy, w;
    float *m, *v, *bias, *bias_m, *bias_v;
    u64 stride;  // of all these buffers, from one restart to the next
    u32 rows, columns, inner, group;
    u32 first_tile, row_tiles, column_tiles;
    float epsilon, beta1;
};

#define MAX_LAYERS 7

struct Updates {
    Layer layers[MAX_LAYERS];
    u32 n_layers, n_tiles;
    const Clock *clock;
};

static_assert(sizeof(Updates) == 3712, "as in layers/deferred.rs");

// Products of 16 x 8 elements: of sixteen k, and of eight (the first halves of a and b).
__device__ __forceinline__ void multiply_sixteen(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if HOPPER
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

__device__ __forceinline__ void multiply_eight(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if HOPPER
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
}

struct Update {
    static const int WARPS = 8, THREADS = 32 * (WARPS + 2), TILE = 64, STAGES = 3;
    static const int BATCH = 104, LAST_EIGHT = 96;
    // A tile's 64 columns are two halves of 32: lines of 128 bytes, swizzled by the copy engine.
    static const int HALF_FACTOR = BATCH * 128, FACTOR = 2 * HALF_FACTOR;
    static const int HALF = TILE * 128, MATRIX = 2 * HALF, STAGE = 3 * MATRIX;
    // x has two buffers and dy one.
    static const int DY = STAGES * STAGE, X = DY + FACTOR;
    // Barriers: parameters are loaded, updated, stored; x is loaded, dy is loaded, both are consumed.
    static const int LOADED = X + 2 * FACTOR, UPDATED = LOADED + 8 * STAGES, STORED = UPDATED + 8 * STAGES;
    static const int X_LOADED = STORED + 8 * STAGES, DY_LOADED = X_LOADED + 8 * 2, CONSUMED = DY_LOADED + 8;

    // Iterates over a block's tiles. Neighbouring blocks have neighbouring tiles, so that they read the same pages of
    // memory at the same time.
    struct TileIterator {
        const Updates &l;
        u32 tile, i, layer, restart, row, column;

        __device__ __forceinline__ TileIterator(const Updates &l) : l(l), tile(blockIdx.x), i(0) { find(); }

        __device__ __forceinline__ bool is_valid() const { return tile < l.n_tiles; }

        __device__ __forceinline__ const Layer &current() const { return l.layers[layer]; }

        __device__ __forceinline__ void next() {
            i++, tile += gridDim.x;
            find();
        }

        __device__ __forceinline__ void find() {
            if (!is_valid()) return;
            for (layer = 0; layer + 1 < l.n_layers && tile >= l.layers[layer + 1].first_tile;) layer++;
            u32 rest = tile - current().first_tile;
            column = rest % current().column_tiles * TILE, rest /= current().column_tiles;
            row = rest % current().row_tiles * TILE, restart = rest / current().row_tiles;
        }

        __device__ __forceinline__ u32 height() const { return min(current().rows - row, (u32)TILE); }

        __device__ __forceinline__ u32 width() const { return min(current().columns - column, (u32)TILE); }

        // The offset of the tile's moments, and their size in bytes.
        __device__ __forceinline__ u64 moments() const {
            return restart * current().stride + (u64)row * current().columns + (u64)column * height();
        }

        __device__ __forceinline__ u32 n_bytes() const { return height() * width() * 4; }
    };

    static __device__ __forceinline__ void load_parameters(const TileIterator &p, u32 base) {
        const Layer &layer = p.current();
        u32 loaded = base + LOADED + p.i % STAGES * 8, to = base + p.i % STAGES * STAGE;
        expect_bytes(loaded, MATRIX + 2 * p.n_bytes());
        load_tile(to, layer.w, p.column, p.row, p.restart, loaded);
        load_tile(to + HALF, layer.w, p.column + 32, p.row, p.restart, loaded);
        load_bulk(to + MATRIX, layer.m + p.moments(), p.n_bytes(), loaded);
        load_bulk(to + 2 * MATRIX, layer.v + p.moments(), p.n_bytes(), loaded);
    }

    static __device__ __forceinline__ void load_factor(const Map &factor, u32 column, u32 restart, u32 to, u32 loaded) {
        expect_bytes(loaded, FACTOR);
        load_tile(to, factor, column, 0, restart, loaded);
        load_tile(to + HALF_FACTOR, factor, column + 32, 0, restart, loaded);
    }

    static __device__ void load_tiles(const Updates &l, u32 base) {
        for (TileIterator p(l); p.is_valid(); p.next()) {
            u32 i = p.i;
            if (i >= STAGES) wait_stage(base + STORED, i - STAGES, STAGES);
            load_parameters(p, base);
            if (i >= 2) wait_stage(base + CONSUMED, i - 2, 2);
            load_factor(p.current().x, p.row, p.restart, base + X + i % 2 * FACTOR, base + X_LOADED + i % 2 * 8);
            if (i >= 1) wait_stage(base + CONSUMED, i - 1, 2);
            load_factor(p.current().dy, p.column, p.restart, base + DY, base + DY_LOADED);
        }
    }

    static __device__ void store_tiles(const Updates &l, u32 base) {
        for (TileIterator p(l); p.is_valid(); p.next()) {
            const Layer &layer = p.current();
            u32 i = p.i, from = base + i % STAGES * STAGE;
            wait_stage(base + UPDATED, i, STAGES);
            store_tile(layer.w, from, p.column, p.row, p.restart);
            store_tile(layer.w, from + HALF, p.column + 32, p.row, p.restart);
            store_bulk(layer.m + p.moments(), from + MATRIX, p.n_bytes());
            store_bulk(layer.v + p.moments(), from + 2 * MATRIX, p.n_bytes());
            wait_stores_read();
            arrive(base + STORED + i % STAGES * 8);
        }
    }

    // Adds eight or sixteen k to a warp's 32 x 16 of the tile, as bf16 pairs in either precision: TF32 would be no faster.
    // The assignment of rows, columns and k to lanes is free: a lane's four rows, and its two columns, are adjacent, and
    // its k are 2t and 2t + 1 of each eight, which avoids bank conflicts.
    template <int EIGHTS>
    static __device__ __forceinline__ void accumulate(const char *a, const char *b, u32 b_chunk, float (&sums)[2][2][4]) {
        u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        Halves rows[EIGHTS][4], columns[EIGHTS][2];
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
            u32 k = 2 * t, chunk = b_chunk + g / 2;
            const char *a_line = a + (8 * e + k) * 128, *b_line = b + (8 * e + k) * 128 + g % 2 * 8;
            float4 r = *(const float4 *)(a_line + (g ^ k) * 16), s = *(const float4 *)(a_line + 128 + (g ^ k ^ 1) * 16);
            float2 c = *(const float2 *)(b_line + (chunk ^ k) * 16), d = *(const float2 *)(b_line + 128 + (chunk ^ k ^ 1) * 16);
            rows[e][0] = Halves(r.x, s.x), rows[e][1] = Halves(r.y, s.y);
            rows[e][2] = Halves(r.z, s.z), rows[e][3] = Halves(r.w, s.w);
            columns[e][0] = Halves(c.x, d.x), columns[e][1] = Halves(c.y, d.y);
        }
        // The smaller terms first.
#pragma unroll
        for (int term = 0; term < 3; term++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                u32 x[4], y[2];
#pragma unroll
                for (int e = 0; e < EIGHTS; e++) {
                    Halves first = rows[e][i / 2 * 2], second = rows[e][i / 2 * 2 + 1], column = columns[e][i % 2];
                    x[2 * e] = term == 0 ? first.rest : first.big;
                    x[2 * e + 1] = term == 0 ? second.rest : second.big;
                    y[e] = term == 1 ? column.rest : column.big;
                }
                if (EIGHTS == 2) multiply_sixteen(sums[i / 2][i % 2], x, y);
                else multiply_eight(sums[i / 2][i % 2], x, y);
            }
        }
    }

    // The sum of a column of dy over the batch: the gradient of its bias.
    static __device__ __forceinline__ float sum_column(const char *dy, u32 column) {
        const char *from = dy + column / 32 * HALF_FACTOR + column % 4 * 4;
        float sum = 0.0f;
#pragma unroll 8
        for (u32 k = 0; k < BATCH; k++) sum += *(const float *)(from + k * 128 + ((column % 32 / 4) ^ (k % 8)) * 16);
        return sum;
    }

    // Adam's step of a warp's 32 x 16. A lane has the gradients of rows 4g.. and columns 4t..: the second element of two
    // columns' fragments is two columns further. A line of parameters is a half of 32 columns, swizzled by the engine.
    static __device__ __forceinline__ void step(const TileIterator &p, char *stage, u32 first_row, u32 first_column,
                                                const float (&sums)[2][2][4]) {
        const Layer &layer = p.current();
        u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, column = first_column + 4 * t;
        float step_size = p.l.clock->step_size[layer.group], inverse_root = p.l.clock->inverse_root;
        u32 height = p.height(), width = p.width();
        if (column >= width) return;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            u32 row = first_row + 4 * g + r;
            if (row >= height) break;
            float *at = (float *)(stage + column / 32 * HALF + row * 128 + (column % 32 / 4 ^ row % 8) * 16);
            float *moment = (float *)(stage + MATRIX) + index_in_tile(row, column, width);
            Pack<4> w, m, v;
            w.load(at), m.load(moment), v.load(moment + MATRIX / 4);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                adam_update(sums[r / 2][c % 2][r % 2 * 2 + c / 2], step_size, inverse_root, layer.epsilon, layer.beta1,
                            &w.x[c], &m.x[c], &v.x[c]);
            }
            w.store(at), m.store(moment), v.store(moment + MATRIX / 4);
        }
    }

    static __device__ void compute_tiles(const Updates &l, char *shared, u32 base) {
        u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        // The warp's part of the tile: its half of the rows and of the columns, and 16 columns of that.
        u32 half_m = warp / 4, half_n = warp % 4 / 2, chunk = warp % 2 * 4;
        const char *dy = shared + DY, *b = dy + half_n * HALF_FACTOR;
        for (TileIterator p(l); p.is_valid(); p.next()) {
            const Layer &layer = p.current();
            u32 i = p.i;
            wait_stage(base + DY_LOADED, i, 1);
            wait_stage(base + X_LOADED, i, 2);
            const char *a = shared + X + i % 2 * FACTOR + half_m * HALF_FACTOR;
            float sums[2][2][4] = {};
#pragma unroll
            for (u32 k = 0; k < LAST_EIGHT; k += 16) {
                if (k >= layer.inner) break;
                accumulate<2>(a + k * 128, b + k * 128, chunk, sums);
            }
            if (layer.inner > LAST_EIGHT) accumulate<1>(a + LAST_EIGHT * 128, b + LAST_EIGHT * 128, chunk, sums);
            bool sums_columns = p.row == 0 && threadIdx.x < TILE;
            float column_sum = sums_columns ? sum_column(dy, threadIdx.x) : 0.0f;
            __syncwarp();
            if (lane == 0) arrive(base + CONSUMED + i % 2 * 8);

            wait_stage(base + LOADED, i, STAGES);
            step(p, shared + i % STAGES * STAGE, half_m * 32, half_n * 32 + chunk * 4, sums);
            fence_async_proxy();
            __syncwarp();
            if (lane == 0) arrive(base + UPDATED + i % STAGES * 8);
            if (sums_columns && p.column + threadIdx.x < layer.columns) {
                u64 at = p.restart * layer.stride + p.column + threadIdx.x;
                adam_update(column_sum, l.clock->step_size[layer.group], l.clock->inverse_root, layer.epsilon, layer.beta1,
                            layer.bias + at, layer.bias_m + at, layer.bias_v + at);
            }
        }
    }

    static __device__ __forceinline__ void run(const Updates &l) {
#if HOPPER
        extern __shared__ __align__(16) float unaligned[];
        u32 before = (u32)__cvta_generic_to_shared(unaligned), base = (before + 1023) & ~1023u;
        char *shared = (char *)unaligned + (base - before);
        if (threadIdx.x == 0) {
            for (u32 s = 0; s < STAGES; s++) {
                init_barrier(base + LOADED + s * 8, 1);
                init_barrier(base + UPDATED + s * 8, WARPS);
                init_barrier(base + STORED + s * 8, 1);
            }
            for (u32 s = 0; s < 2; s++) {
                init_barrier(base + X_LOADED + s * 8, 1);
                init_barrier(base + CONSUMED + s * 8, WARPS);
            }
            init_barrier(base + DY_LOADED, 1);
            fence_async_proxy();
        }
        sync_block();
        u32 warp = threadIdx.x / 32;
        if (warp == WARPS + 1) {
            for (u32 i = threadIdx.x % 32; i < 3 * l.n_layers; i += 32) prefetch_map((&l.layers[i / 3].x)[i % 3]);
        }
        if (warp < WARPS) compute_tiles(l, shared, base);
        else if (threadIdx.x == 32 * WARPS) load_tiles(l, base);
        else if (threadIdx.x == 32 * (WARPS + 1)) store_tiles(l, base);
#endif
    }
};

extern "C" __global__ __launch_bounds__(Update::THREADS, 1) void update_weights(const __grid_constant__ Updates l) {
    Update::run(l);
}
