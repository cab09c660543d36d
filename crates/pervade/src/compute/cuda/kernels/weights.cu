// Weight gradients of many restarts, each tile of which goes straight into Adam's step: all layers of a step in a
// launch or two, on Hopper.
//
// They are short of memory's time, not of arithmetic. So a block a multiprocessor goes from tile to tile: one thread
// asks the copy engine for parameters and moments two tiles ahead, eight warps multiply and take Adam's step in
// shared memory, and one thread sends what is done back.

struct alignas(128) Layer {
    Map x, dy, w, m, v;
    float *bias, *bias_m, *bias_v;
    u64 bias_stride;
    u32 columns, inner, group;
    u32 first_tile, row_tiles, column_tiles;
    float epsilon, beta1;
};

#define MOST_LAYERS 5

struct Updates {
    Layer layers[MOST_LAYERS];
    u32 n_layers, n_tiles;
    const Clock *clock;
};

static_assert(sizeof(Updates) == 3968, "as in affine/late.rs");

struct Update {
    static const int WARPS = 8, THREADS = 32 * (WARPS + 2), TILE = 64, BATCH = 104, STAGES = 3;
    // A tile's 64 columns are two halves of 32: lines of 128 bytes, as the engine swizzles them.
    static const int HALF_FACTOR = BATCH * 128, FACTOR = 2 * HALF_FACTOR;
    static const int HALF = TILE * 128, MATRIX = 2 * HALF, STAGE = 3 * MATRIX;
    // x has two places and dy one.
    static const int DY = STAGES * STAGE, X = DY + FACTOR;
    // Counters: parameters are there, are done, are sent; x is there, dy is there, both are used up.
    static const int THERE = X + 2 * FACTOR, DONE = THERE + 8 * STAGES, SENT = DONE + 8 * STAGES;
    static const int X_THERE = SENT + 8 * STAGES, DY_THERE = X_THERE + 8 * 2, USED = DY_THERE + 8;

    // A block's tiles, one after the other. Blocks side by side have tiles side by side, so that they read the same
    // pages of memory at the same time.
    struct Walk {
        const Updates &l;
        u32 tile, i, layer, restart, row, column;

        __device__ __forceinline__ Walk(const Updates &l) : l(l), tile(blockIdx.x), i(0) { find(); }

        __device__ __forceinline__ bool more() const { return tile < l.n_tiles; }

        __device__ __forceinline__ const Layer &here() const { return l.layers[layer]; }

        __device__ __forceinline__ void next() {
            i++, tile += gridDim.x;
            find();
        }

        __device__ __forceinline__ void find() {
            if (!more()) return;
            for (layer = 0; layer + 1 < l.n_layers && tile >= l.layers[layer + 1].first_tile;) layer++;
            u32 rest = tile - here().first_tile;
            column = rest % here().column_tiles * TILE, rest /= here().column_tiles;
            row = rest % here().row_tiles * TILE, restart = rest / here().row_tiles;
        }
    };

    static __device__ void bring(const Updates &l, u32 base) {
        for (Walk p(l); p.more(); p.next()) {
            const Layer &layer = p.here();
            u32 i = p.i, there = base + THERE + i % STAGES * 8, to = base + i % STAGES * STAGE;
            if (i >= STAGES) wait_stage(base + SENT, i - STAGES, STAGES);
            expect(there, STAGE);
            for (u32 half = 0; half < 2; half++, to += HALF) {
                u32 column = p.column + 32 * half;
                copy_tile(to, layer.w, column, p.row, p.restart, there);
                copy_tile(to + MATRIX, layer.m, column, p.row, p.restart, there);
                copy_tile(to + 2 * MATRIX, layer.v, column, p.row, p.restart, there);
            }
            if (i >= 2) wait_stage(base + USED, i - 2, 2);
            there = base + X_THERE + i % 2 * 8, to = base + X + i % 2 * FACTOR;
            expect(there, FACTOR);
            copy_tile(to, layer.x, p.row, 0, p.restart, there);
            copy_tile(to + HALF_FACTOR, layer.x, p.row + 32, 0, p.restart, there);
            if (i >= 1) wait_stage(base + USED, i - 1, 2);
            there = base + DY_THERE, to = base + DY;
            expect(there, FACTOR);
            copy_tile(to, layer.dy, p.column, 0, p.restart, there);
            copy_tile(to + HALF_FACTOR, layer.dy, p.column + 32, 0, p.restart, there);
        }
    }

    static __device__ void send(const Updates &l, u32 base) {
        for (Walk p(l); p.more(); p.next()) {
            const Layer &layer = p.here();
            u32 i = p.i, from = base + i % STAGES * STAGE;
            wait_stage(base + DONE, i, STAGES);
            for (u32 half = 0; half < 2; half++, from += HALF) {
                u32 column = p.column + 32 * half;
                send_tile(layer.w, from, column, p.row, p.restart);
                send_tile(layer.m, from + MATRIX, column, p.row, p.restart);
                send_tile(layer.v, from + 2 * MATRIX, column, p.row, p.restart);
            }
            wait_until_read();
            arrive(base + SENT + i % STAGES * 8);
        }
    }

    // Adds eight k to a warp's 32 x 16 of the tile. Which row, column and k of them a lane multiplies is free: its
    // four rows, and its two columns, lie side by side, and its k are 2t and 2t + 1, so that no banks meet.
    static __device__ __forceinline__ void use(const char *a, const char *b, u32 b_chunk, float (&sums)[2][2][4]) {
        u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        u32 a_big[2][4], a_rest[2][4], b_big[2][2], b_rest[2][2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            u32 k = 2 * t + e;
            float4 four = *(const float4 *)(a + k * 128 + (g ^ k) * 16);
            float2 two = *(const float2 *)(b + k * 128 + ((b_chunk + g / 2) ^ k) * 16 + g % 2 * 8);
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

    // The sum of a column of dy over the batch: the gradient of its bias.
    static __device__ __forceinline__ float sum_column(const char *dy, u32 column) {
        const char *from = dy + column / 32 * HALF_FACTOR + column % 4 * 4;
        float sum = 0.0f;
#pragma unroll 8
        for (u32 k = 0; k < BATCH; k++) sum += *(const float *)(from + k * 128 + ((column % 32 / 4) ^ (k % 8)) * 16);
        return sum;
    }

    // Adam's step of a warp's 32 x 16. A lane has the gradients of rows 4g.., columns 4t..: the second number of two
    // columns' fragments is two on.
    static __device__ __forceinline__ void step(const Updates &l, const Layer &layer, char *params, u32 first_row, u32 chunk,
                                                const float (&sums)[2][2][4]) {
        u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        float step_size = l.clock->step_size[layer.group], inverse_root = l.clock->inverse_root;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            u32 row = first_row + 4 * g + r;
            float *at = (float *)(params + row * 128 + ((chunk + t) ^ (row % 8)) * 16);
            Pack<4> w, m, v;
            w.load(at), m.load(at + MATRIX / 4), v.load(at + MATRIX / 2);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                adam_update(sums[r / 2][c % 2][r % 2 * 2 + c / 2], step_size, inverse_root, layer.epsilon, layer.beta1,
                            &w.x[c], &m.x[c], &v.x[c]);
            }
            w.store(at), m.store(at + MATRIX / 4), v.store(at + MATRIX / 2);
        }
    }

    static __device__ void work(const Updates &l, char *shared, u32 base) {
        u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        // The warp's place in the tile: its half of the rows and columns, and 16 columns of that.
        u32 half_m = warp / 4, half_n = warp % 4 / 2, chunk = warp % 2 * 4;
        const char *dy = shared + DY, *b = dy + half_n * HALF_FACTOR;
        for (Walk p(l); p.more(); p.next()) {
            const Layer &layer = p.here();
            u32 i = p.i;
            wait_stage(base + DY_THERE, i, 1);
            wait_stage(base + X_THERE, i, 2);
            const char *a = shared + X + i % 2 * FACTOR + half_m * HALF_FACTOR;
            float sums[2][2][4] = {};
#pragma unroll
            for (u32 k = 0; k < BATCH; k += 8) {
                if (k >= layer.inner) break;
                use(a + k * 128, b + k * 128, chunk, sums);
            }
            bool sums_columns = p.row == 0 && threadIdx.x < TILE;
            float column_sum = sums_columns ? sum_column(dy, threadIdx.x) : 0.0f;
            __syncwarp();
            if (lane == 0) arrive(base + USED + i % 2 * 8);

            wait_stage(base + THERE, i, STAGES);
            step(l, layer, shared + i % STAGES * STAGE + half_n * HALF, half_m * 32, chunk, sums);
            show_engine();
            __syncwarp();
            if (lane == 0) arrive(base + DONE + i % STAGES * 8);
            if (sums_columns && p.column + threadIdx.x < layer.columns) {
                u64 at = p.restart * layer.bias_stride + p.column + threadIdx.x;
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
                start_counter(base + THERE + s * 8, 1);
                start_counter(base + DONE + s * 8, WARPS);
                start_counter(base + SENT + s * 8, 1);
            }
            for (u32 s = 0; s < 2; s++) {
                start_counter(base + X_THERE + s * 8, 1);
                start_counter(base + USED + s * 8, WARPS);
            }
            start_counter(base + DY_THERE, 1);
            show_engine();
        }
        meet();
        u32 warp = threadIdx.x / 32;
        if (warp < WARPS) work(l, shared, base);
        else if (threadIdx.x == 32 * WARPS) bring(l, base);
        else if (threadIdx.x == 32 * (WARPS + 1)) send(l, base);
#endif
    }
};

extern "C" __global__ __launch_bounds__(Update::THREADS, 1) void update_weights(const __grid_constant__ Updates l) {
    Update::run(l);
}
