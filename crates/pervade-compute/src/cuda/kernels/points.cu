// Passes over the latents of all rows: the E-steps of EM and k-means, and k-means++.
//
// In double precision, so that results match the host's: k-means makes the same decisions row by row, and a rounding
// difference in single precision would change its course. Every sum has a fixed order.

#define ROWS 32    // rows per block
#define GROUP 8    // rows per thread, for one component
#define COLUMNS 32 // latent columns in shared memory at once
#define NEG_INFINITY_F64 __longlong_as_double(0xfff0000000000000ll)

// The components in one buffer: centre [J], constants [C], means [J, C], inverse variances [J, C].
struct Components {
    const double *centre, *constants, *means, *inverses;
    __device__ Components(const double *all, u32 j, u32 c)
        : centre(all), constants(all + j), means(all + j + c), inverses(all + j + c + (u64)j * c) {}
};

// Turns the log joints of a row into responsibilities, by one warp; returns their log-sum-exp.
__device__ double softmax_row(double *row, double *gamma, u32 c) {
    u32 lane = threadIdx.x % 32;
    double highest = NEG_INFINITY_F64, sum = 0.0;
    for (u32 m = lane; m < c; m += 32) highest = row[m] > highest ? row[m] : highest;
    for (int distance = 16; distance > 0; distance /= 2) {
        double other = __shfl_xor_sync(~0u, highest, distance);
        highest = other > highest ? other : highest;
    }
#pragma unroll 4
    for (u32 m = lane; m < c; m += 32) {
        double value = exp(row[m] - highest);
        row[m] = value;
        sum += value;
    }
    sum = warp_sum(sum);
    double scale = 1.0 / sum;
    for (u32 m = lane; m < c; m += 32) gamma[m] = row[m] * scale;
    return highest + log(sum);
}

// Writes a one-hot row for the highest log joint (ties go to the first), by one warp; returns its index and sets
// `value`.
__device__ u32 argmax_row(const double *row, double *gamma, u32 c, double *value) {
    u32 lane = threadIdx.x % 32, best = c;
    double highest = NEG_INFINITY_F64;
    for (u32 m = lane; m < c; m += 32) {
        if (row[m] > highest) highest = row[m], best = m;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        double other = __shfl_xor_sync(~0u, highest, distance);
        u32 other_best = __shfl_xor_sync(~0u, best, distance);
        if (other > highest || (other == highest && other_best < best)) highest = other, best = other_best;
    }
    for (u32 m = lane; m < c; m += 32) gamma[m] = m == best ? 1.0 : 0.0;
    *value = highest;
    return best;
}

// Responsibilities of rows first..: gamma [count, C]; per block of rows, the sum of log densities.
// With an assignment: one-hot gamma; the sums are of minus twice the log joint of the assigned component, and of the
// number of rows whose component changed. Log joints are in shared memory if they fit, else in gamma.
extern "C" __global__ void responsibilities(const float *latents, const double *all, double *gamma, double *sums,
                                            u32 *assignment, double *squares, u64 first, u32 count, u32 j, u32 c,
                                            int in_shared) {
    Components components(all, j, c);
    extern __shared__ double e_step_scratch[];
    double(*z)[COLUMNS] = (double(*)[COLUMNS])e_step_scratch;
    double(*results)[2] = (double(*)[2])(e_step_scratch + ROWS * COLUMNS);
    u32 row0 = blockIdx.x * ROWS, n_rows = min(ROWS, count - row0), items = ROWS / GROUP * c;
    const float *rows = latents + (first + row0) * j;
    double *block = gamma + (u64)row0 * c, *joints = in_shared ? e_step_scratch + ROWS * (COLUMNS + 2) : block;
    for (u32 pass = 0; pass < items; pass += blockDim.x) {
        u32 item = pass + threadIdx.x, m = item % c, group = item / c * GROUP;
        double square[GROUP] = {};
        for (u32 from = 0; from < j; from += COLUMNS) {
            u32 width = min(COLUMNS, j - from);
            // If one load holds all columns, they are already there after the first pass.
            if (pass == 0 || j > COLUMNS) {
                __syncthreads();
                for (u32 i = threadIdx.x; i < ROWS * width; i += blockDim.x) {
                    u32 row = i / width, k = i % width;
                    double value = row < n_rows ? (double)rows[(u64)row * j + from + k] : 0.0;
                    z[row][k] = value - components.centre[from + k];
                }
                __syncthreads();
            }
            if (item >= items) continue;
#pragma unroll 2
            for (u32 k = 0; k < width; k++) {
                double mean = components.means[(u64)(from + k) * c + m];
                double inverse = components.inverses[(u64)(from + k) * c + m];
#pragma unroll
                for (u32 row = 0; row < GROUP; row++) {
                    double difference = z[group + row][k] - mean;
                    square[row] += difference * difference * inverse;
                }
            }
        }
#pragma unroll
        for (u32 row = 0; row < GROUP; row++) {
            if (item < items && group + row < n_rows)
                joints[(u64)(group + row) * c + m] = components.constants[m] - 0.5 * square[row];
        }
    }
    __syncthreads();
    for (u32 row = threadIdx.x / 32; row < n_rows; row += blockDim.x / 32) {
        double result, moved = 0.0, *from = joints + (u64)row * c, *to = block + (u64)row * c;
        if (assignment) {
            u32 best = argmax_row(from, to, c, &result);
            result *= -2.0;
            if (threadIdx.x % 32 == 0) {
                u64 index = first + row0 + row;
                moved = assignment[index] != best;
                assignment[index] = best;
                squares[index] = result;
            }
        } else {
            result = softmax_row(from, to, c);
        }
        if (threadIdx.x % 32 == 0) results[row][0] = result, results[row][1] = moved;
    }
    __syncthreads();
    if (threadIdx.x < 2) {
        double sum = 0.0;
        for (u32 row = 0; row < n_rows; row++) sum += results[row][threadIdx.x];
        sums[(first + row0) / ROWS * 2 + threadIdx.x] = sum;
    }
}

#define TILE_COMPONENTS 64 // components per block: two per lane
#define TILE_COLUMNS 12    // columns per block: four for each of its three warps

// Moments of a part of the rows: [J + 1, C] of gamma z, [J + 1, C] of gamma z^2, and the part's two sums. Column J
// is one, so that its moment is the mass. blockIdx: part, tile of components, tile of columns.
extern "C" __global__ void moments(const float *latents, const double *all, const double *gamma, const double *sums,
                                   double *parts, u64 first, u32 count, u32 part_rows, u32 j, u32 c) {
    Components components(all, j, c);
    __shared__ double weights[ROWS][TILE_COMPONENTS], z[ROWS][TILE_COLUMNS];
    u32 begin = blockIdx.x * part_rows, end = min(begin + part_rows, count), lane = threadIdx.x % 32;
    u32 m0 = blockIdx.y * TILE_COMPONENTS, k0 = blockIdx.z * TILE_COLUMNS, own = threadIdx.x / 32 * 4;
    u64 length = 2 * (u64)(j + 1) * c;
    double *out = parts + ((first + begin) / part_rows) * (length + 2);
    double one[2][4] = {}, two[2][4] = {};
    for (u32 row0 = begin; row0 < end; row0 += ROWS) {
        __syncthreads();
        for (u32 i = threadIdx.x; i < ROWS * TILE_COMPONENTS; i += blockDim.x) {
            u32 row = row0 + i / TILE_COMPONENTS, m = m0 + i % TILE_COMPONENTS;
            weights[i / TILE_COMPONENTS][i % TILE_COMPONENTS] = row < end && m < c ? gamma[(u64)row * c + m] : 0.0;
        }
        for (u32 i = threadIdx.x; i < ROWS * TILE_COLUMNS; i += blockDim.x) {
            u32 row = row0 + i / TILE_COLUMNS, k = k0 + i % TILE_COLUMNS;
            bool there = row < end && k < j;
            double value = there ? (double)latents[(first + row) * j + k] - components.centre[k] : 1.0;
            z[i / TILE_COLUMNS][i % TILE_COLUMNS] = value;
        }
        __syncthreads();
        for (u32 row = 0; row < ROWS && k0 + own <= j; row++) {
            double w0 = weights[row][lane], w1 = weights[row][lane + 32];
#pragma unroll
            for (u32 k = 0; k < 4; k++) {
                double value = z[row][own + k], square = value * value;
                one[0][k] += w0 * value, two[0][k] += w0 * square;
                one[1][k] += w1 * value, two[1][k] += w1 * square;
            }
        }
    }
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        u32 m = m0 + lane + 32 * half;
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            u64 column = k0 + own + k;
            if (m < c && column <= j) out[column * c + m] = one[half][k], out[(j + 1 + column) * c + m] = two[half][k];
        }
    }
    if (blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x < 2) {
        double sum = 0.0;
        for (u32 row = begin; row < end; row += ROWS) sum += sums[(first + row) / ROWS * 2 + threadIdx.x];
        out[length + threadIdx.x] = sum;
    }
}

// Adds up the parts: 32 elements per block, the parts divided among its warps.
extern "C" __global__ void add_parts(const double *parts, double *total, u32 n_parts, u64 length) {
    __shared__ double shares[32][32];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    u64 i = (u64)blockIdx.x * 32 + lane;
    double sum = 0.0;
    if (i < length) {
#pragma unroll 8
        for (u32 part = warp; part < n_parts; part += n_warps) sum += parts[part * length + i];
    }
    shares[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || i >= length) return;
    for (u32 other = 1; other < n_warps; other++) sum += shares[other][lane];
    total[i] = sum;
}

// k-means++: squared distances of the sampled rows to the nearest centre so far, of which centre `m` is new (centre 0 is
// the first of the sample); and their sums per block.
extern "C" __global__ void kmeans_squares(const float *latents, const u32 *sample, const u32 *centres, double *squares,
                                          double *masses, u32 n_sample, u32 m, u32 j) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    double nearest = 0.0;
    if (i < n_sample) {
        const float *row = latents + (u64)sample[i] * j, *newest = latents + (u64)centres[m] * j;
        double square = 0.0;
        for (u32 k = 0; k < j; k++) {
            double difference = (double)row[k] - (double)newest[k];
            square += difference * difference;
        }
        nearest = m == 0 ? square : fmin(squares[i], square);
        squares[i] = nearest;
    }
    double mass = block_sum(nearest);
    if (threadIdx.x == 0) masses[blockIdx.x] = mass;
}

// The position where the cumulative sum exceeds `draw` of the total: first the block of `width` positions, then the
// position within it. Launched as one block of that many threads.
extern "C" __global__ void kmeans_choose(const u32 *sample, const double *squares, const double *masses, u32 *centres,
                                       double draw, u32 n_sample, u32 m) {
    extern __shared__ double block_masses[];
    __shared__ double goal, before;
    __shared__ u32 block;
    u32 width = blockDim.x, n_blocks = (n_sample + width - 1) / width;
    if (threadIdx.x == 0) {
        double total = 0.0, sum = 0.0;
        for (u32 i = 0; i < n_blocks; i++) total += masses[i];
        goal = draw * total;
        block = n_blocks;
        // If rounding keeps the sum from exceeding a draw close to one, this is the last position with any mass.
        for (u32 i = 0; i < n_blocks && !(sum > goal); i++) {
            if (masses[i] > 0.0) block = i, before = sum;
            sum += masses[i];
        }
    }
    __syncthreads();
    u32 position = block * width + threadIdx.x;
    block_masses[threadIdx.x] = block < n_blocks && position < n_sample ? squares[position] : 0.0;
    __syncthreads();
    if (threadIdx.x > 0) return;
    u32 chosen = (u32)(draw * n_sample);  // if there is no mass at all: every row is on a centre
    if (block < n_blocks) {
        double sum = before;
        for (u32 i = 0; i < width && !(sum > goal); i++) {
            if (block_masses[i] > 0.0) chosen = block * width + i;
            sum += block_masses[i];
        }
    }
    centres[m + 1] = sample[chosen];
}
