// Batches of scaled rows of the data set.

struct Rows {
    const void *values;  // dense [N, D], or the entries of sparse rows
    const u32 *columns;  // of the entries
    const u64 *starts;   // the start of each sparse row, [N + 1]
    const float *shift;  // [D] or null
    const float *scale;  // [D] or [1]
    u64 n_rows;
    u32 n_columns;
    u32 n_scales;
    u32 kind;  // 0 u8, 1 f16, 2 f32, 3 sparse f32
    float row_norm;  // 0: rows are not normalised
};

__device__ __forceinline__ float half_to_float(unsigned short h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

__device__ __forceinline__ float value_at(const Rows &rows, u64 i) {
    if (rows.kind == 0) return (float)((const u8 *)rows.values)[i];
    if (rows.kind == 1) return half_to_float(((const unsigned short *)rows.values)[i]);
    return ((const float *)rows.values)[i];
}

__device__ __forceinline__ float scaled(const Rows &rows, float x, float factor, u32 column) {
    x *= factor;
    if (rows.shift) x -= rows.shift[column];
    return x * rows.scale[rows.n_scales == 1 ? 0 : column];
}

// A dense row, V elements per thread at a time.
template <int V>
__device__ __forceinline__ void scale_dense(const Rows &rows, u64 begin, float factor, float *out) {
    for (u32 c = threadIdx.x * V; c < rows.n_columns; c += blockDim.x * V) {
        Pack<V> x;
        if (V == 4 && rows.kind == 0) {
            uchar4 u = *(const uchar4 *)((const u8 *)rows.values + begin + c);
            x.x[0] = u.x, x.x[1 % V] = u.y, x.x[2 % V] = u.z, x.x[3 % V] = u.w;
        } else {
#pragma unroll
            for (int e = 0; e < V; e++) x.x[e] = value_at(rows, begin + c + e);
        }
#pragma unroll
        for (int e = 0; e < V; e++) x.x[e] = scaled(rows, x.x[e], factor, c + e);
        x.store(out + c);
    }
}

// The row indices at positions first.. of each restart's shuffle: [R, count]; and, where there are lists of neighbours
// [R, N, k], one of each row's neighbours.
extern "C" __global__ void shuffle(u32 *indices, Keys keys, u64 epoch, u64 first, u32 count, u64 n_rows, const u32 *lists,
                                   u32 k, u32 *drawn, Keys neighbour_keys) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, restart = blockIdx.y;
    if (i >= count) return;
    u64 row = permute(first + i, n_rows, epoch, keys.words[2 * restart], keys.words[2 * restart + 1]);
    indices[(u64)restart * count + i] = (u32)row;
    if (!lists) return;
    const u32 *key = neighbour_keys.words + 2 * restart;
    u32 which = (u32)(((u64)philox(epoch, (u32)(first + i), 0, key[0], key[1]).x * k) >> 32);
    drawn[(u64)restart * count + i] = lists[((u64)restart * n_rows + row) * k + which];
}

// One block per row: blockIdx.x of B, blockIdx.y of R. Without indices, takes the rows first.. in order. From index `half`
// on, the neighbours of the rows before: those drawn or, without indices, the first in their lists.
extern "C" __global__ void gather(Rows rows, const u32 *indices, u64 indices_stride, const Clock *clock, u64 first,
                                  float *x, const u32 *lists, u32 k, const u32 *drawn, u32 half) {
    u32 i = blockIdx.x, restart = blockIdx.y, d = rows.n_columns;
    bool is_neighbour = i >= half;
    u64 position = first + (is_neighbour ? i - half : i) + (clock ? clock->first : 0);
    u64 row = min(position, rows.n_rows - 1);
    if (indices) row = (is_neighbour ? drawn : indices)[restart * indices_stride + position];
    else if (is_neighbour) row = lists[((u64)restart * rows.n_rows + row) * k];
    float *out = x + ((u64)restart * gridDim.x + i) * d;
    u64 begin = rows.kind == 3 ? rows.starts[row] : row * d;
    u64 end = rows.kind == 3 ? rows.starts[row + 1] : begin + d;
    float factor = 1.0f;
    if (rows.row_norm > 0.0f) {
        double squares = 0.0;
        for (u64 e = begin + threadIdx.x; e < end; e += blockDim.x) {
            double v = value_at(rows, e);
            squares += v * v;
        }
        double norm = sqrt(block_sum(squares));
        if (norm > 0.0) factor = (float)(rows.row_norm / norm);
    }
    if (rows.kind != 3) {
        if (d % 4 == 0) scale_dense<4>(rows, begin, factor, out);
        else scale_dense<1>(rows, begin, factor, out);
        return;
    }
    for (u32 c = threadIdx.x; c < d; c += blockDim.x) out[c] = scaled(rows, 0.0f, factor, c);
    __syncthreads();
    for (u64 e = begin + threadIdx.x; e < end; e += blockDim.x) {
        u32 c = rows.columns[e];
        out[c] = scaled(rows, value_at(rows, e), factor, c);
    }
}
