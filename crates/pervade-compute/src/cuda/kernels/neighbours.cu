// The nearest neighbours of every node, by comparing it with every other.
//
// A thread has one node and goes through all the others in rising order, a tile at a time; the tile's columns lie
// in shared memory, where all threads of a warp read the same number at the same time. Sums run over the columns
// in rising order without fused operations, as on the host: the same distances to the last bit.

#define NODES 64       // nodes of a block, one a thread
#define CANDIDATES 32  // candidates of a tile
#define TILE_GROUPS 8  // columns of a tile, in groups of four

// The nodes' latents one after the other, padded with zeros to groups of four columns.
extern "C" __global__ void node_latents(const float *latents, const u32 *rows, float *nodes, u64 n, u32 j, u32 padded) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * padded) return;
    u64 node = i / padded;
    u32 k = (u32)(i % padded);
    nodes[i] = k < j ? latents[(u64)rows[node] * j + k] : 0.0f;
}

__device__ __forceinline__ float add_square(float sum, float a, float b) {
    float difference = __fsub_rn(a, b);
    return __fadd_rn(sum, __fmul_rn(difference, difference));
}

// A list of the nearest so far, nearest first, number i at i * stride.
struct Nearby {
    float *squares;
    u32 *ids;
    u32 stride, found, most;
    float farthest;  // of the last that is kept; infinite until there are enough

    // Candidates come in rising order, so an equally far later one never displaces one.
    __device__ void insert(float square, u32 id) {
        u32 i = found < most ? found++ : most - 1;
        for (; i > 0 && squares[(u64)(i - 1) * stride] > square; i--) {
            squares[(u64)i * stride] = squares[(u64)(i - 1) * stride];
            ids[(u64)i * stride] = ids[(u64)(i - 1) * stride];
        }
        squares[(u64)i * stride] = square;
        ids[(u64)i * stride] = id;
        if (found == most) farthest = squares[(u64)(most - 1) * stride];
    }
};

// Neighbours [n, k]. The lists lie in shared memory or, where they are too long for it, in `lists` [2, k, n].
extern "C" __global__ void __launch_bounds__(NODES)
    neighbours(const float4 *nodes, u32 *out, u32 *lists, u32 n, u32 groups, u32 k) {
    extern __shared__ float4 tile_and_lists[];
    float4(*tile)[TILE_GROUPS] = (float4(*)[TILE_GROUPS])tile_and_lists;
    float *memory = (float *)(tile_and_lists + CANDIDATES * TILE_GROUPS);
    float *passing = memory + threadIdx.x;  // [CANDIDATES, NODES]
    u32 node = blockIdx.x * NODES + threadIdx.x, here = min(node, n - 1);
    Nearby nearby;
    nearby.stride = lists ? n : NODES;
    nearby.squares = lists ? (float *)lists + here : memory + CANDIDATES * NODES + threadIdx.x;
    nearby.ids = (u32 *)nearby.squares + (u64)k * nearby.stride;
    nearby.found = 0;
    nearby.most = k;
    // Threads beyond the last node have nothing to find: no candidate is nearer than this.
    nearby.farthest = node < n ? -LEAST : LEAST;
    for (u32 base = 0; base < n; base += CANDIDATES) {
        float squares[CANDIDATES] = {};
        for (u32 from = 0; from < groups; from += TILE_GROUPS) {
            u32 width = min(TILE_GROUPS, groups - from);
            __syncthreads();
            for (u32 i = threadIdx.x; i < CANDIDATES * width; i += NODES) {
                u32 candidate = min(base + i / width, n - 1);
                tile[i / width][i % width] = nodes[(u64)candidate * groups + from + i % width];
            }
            __syncthreads();
            for (u32 group = 0; group < width; group++) {
                float4 z = nodes[(u64)here * groups + from + group];
#pragma unroll
                for (u32 t = 0; t < CANDIDATES; t++) {
                    float4 other = tile[t][group];
                    float sum = add_square(squares[t], z.x, other.x);
                    sum = add_square(sum, z.y, other.y);
                    sum = add_square(sum, z.z, other.z);
                    squares[t] = add_square(sum, z.w, other.w);
                }
            }
        }
        float least = squares[0];
#pragma unroll
        for (u32 t = 1; t < CANDIDATES; t++) least = fminf(least, squares[t]);
        if (least < nearby.farthest) {
            u32 closer = 0;
#pragma unroll
            for (u32 t = 0; t < CANDIDATES; t++) {
                passing[t * NODES] = squares[t];
                closer |= (u32)(squares[t] < nearby.farthest) << t;
            }
            for (; closer; closer &= closer - 1) {
                u32 t = __ffs(closer) - 1, id = base + t;
                float square = passing[t * NODES];
                if (square < nearby.farthest && id != node && id < n) nearby.insert(square, id);
            }
        }
        __syncwarp();
    }
    for (u32 i = 0; node < n && i < k; i++) out[(u64)node * k + i] = nearby.ids[(u64)i * nearby.stride];
}
