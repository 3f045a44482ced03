/* libjpeg-turbo's decompressor for baseline JPEG, with Huffman decoding left to the caller.
 *
 * Whatever the library would complain about, a warning as well as an error, ends a call with 0; what was wrong is not
 * said. The decompressor can be used again after that.
 */

#include "library.h"

#include <string.h>

/* The library's private structures begin with these in every version so far. */
#if LIBJPEG_TURBO_VERSION_NUMBER < 3000000 || LIBJPEG_TURBO_VERSION_NUMBER >= 4000000
#error "compare the structures below with jpegint.h of this version of libjpeg-turbo"
#endif
struct jpeg_entropy_decoder {
  void (*start_pass)(j_decompress_ptr info);
  boolean (*decode_mcu)(j_decompress_ptr info, JBLOCKROW *blocks);
};

struct jpeg_d_coef_controller {
  void (*start_input_pass)(j_decompress_ptr info);
  int (*consume_data)(j_decompress_ptr info);
  void (*start_output_pass)(j_decompress_ptr info);
  int (*decompress_data)(j_decompress_ptr info, JSAMPIMAGE out);
};

#define ROWS_AT_ONCE 16
/* Bytes of a cache line. */
#define ALIGNMENT 64
/* Results of decompress_data. */
#define ROW_COMPLETED 3
#define SCAN_COMPLETED 4

static void fail(j_common_ptr info)
{
  longjmp(((struct forebay_library *)info->client_data)->failed, 1);
}

static void fail_on_warning(j_common_ptr info, int level)
{
  if (level < 0)
    fail(info);
}

static boolean decode_mcu(j_decompress_ptr info, JBLOCKROW *blocks)
{
  struct forebay_library *library = info->client_data;
  JDIMENSION column = library->column;
  library->column = column + 1 == info->MCUs_per_row ? 0 : column + 1;
  if (column < library->first_column || column > library->last_column)
    blocks = NULL;
  library->decode(library->state, blocks);
  return TRUE;
}

/* Makes pixels of the blocks that wait. Without enough of them some are done again. */
static void transform(struct forebay_library *library)
{
  if (library->waiting == 0)
    return;
  for (unsigned job = library->waiting; job < TRANSFORMS; job++)
    library->jobs[job] = library->jobs[0];
  library->transform(library->jobs);
  library->waiting = 0;
}

/* Adds the blocks of an MCU that have pixels in the image. `row` is that of the MCU within its iMCU. */
static void add_jobs(struct forebay_library *library, JBLOCK *blocks, JSAMPIMAGE out, JDIMENSION column,
                     int row)
{
  j_decompress_ptr info = &library->info;
  int last_row = info->input_iMCU_row + 1 == info->total_iMCU_rows;
  for (int index = 0; index < info->comps_in_scan; index++) {
    const jpeg_component_info *component = info->cur_comp_info[index];
    int width = column + 1 == info->MCUs_per_row ? component->last_col_width : component->MCU_width;
    int height = component->MCU_height;
    if (last_row && component->last_row_height - row < height)
      height = component->last_row_height - row;
    if (!component->component_needed)
      height = 0;
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) {
        struct forebay_transform_job *job = &library->jobs[library->waiting++];
        job->block = blocks[y * component->MCU_width + x];
        job->quantisation = component->quant_table->quantval;
        job->rows = out[component->component_index] + (row + y) * DCTSIZE;
        job->column = ((column - library->first_column) * (unsigned)component->MCU_width + (unsigned)x) * DCTSIZE;
        if (library->waiting == TRANSFORMS)
          transform(library);
      }
    blocks += component->MCU_blocks;
  }
}

/* A row of iMCUs, as the library's function of this name makes it, which calls for one block at a time. */
static int decompress_data(j_decompress_ptr info, JSAMPIMAGE out)
{
  struct forebay_library *library = info->client_data;
  int rows = 1;
  if (info->comps_in_scan == 1)
    rows = info->input_iMCU_row + 1 == info->total_iMCU_rows ? info->cur_comp_info[0]->last_row_height
                                                             : info->cur_comp_info[0]->v_samp_factor;
  for (int row = 0; row < rows; row++) {
    for (JDIMENSION column = 0; column < info->MCUs_per_row; column++) {
      if (column < library->first_column || column > library->last_column) {
        library->decode(library->state, NULL);
        continue;
      }
      JBLOCK *blocks = library->blocks + library->mcu * D_MAX_BLOCKS_IN_MCU;
      JBLOCKROW pointers[D_MAX_BLOCKS_IN_MCU];
      for (int block = 0; block < info->blocks_in_MCU; block++)
        pointers[block] = blocks + block;
      memset(blocks, 0, (size_t)info->blocks_in_MCU * sizeof *blocks);
      library->decode(library->state, pointers);
      library->mcu = (library->mcu + 1) % TRANSFORMS;
      add_jobs(library, blocks, out, column, row);
    }
  }
  transform(library);
  info->output_iMCU_row++;
  /* Nothing is read after the last row, so the library need not be told that the pass ends. */
  return ++info->input_iMCU_row < info->total_iMCU_rows ? ROW_COMPLETED : SCAN_COMPLETED;
}

/* Whether all blocks are to be transformed as a whole. */
static int is_in_full(j_decompress_ptr info)
{
  for (int index = 0; index < info->num_components; index++) {
    const jpeg_component_info *component = &info->comp_info[index];
    if (component->DCT_scaled_size != DCTSIZE || component->quant_table == NULL)
      return 0;
  }
  return 1;
}

static int create(struct forebay_library *library)
{
  library->info.err = jpeg_std_error(&library->errors);
  library->errors.error_exit = fail;
  library->errors.emit_message = fail_on_warning;
  library->info.client_data = library;
  if (setjmp(library->failed))
    return 0;
  jpeg_create_decompress(&library->info);
  return 1;
}

/* A decompressor, or NULL where there is no memory for it. */
struct forebay_library *forebay_library_new(void)
{
  struct forebay_library *library = calloc(1, sizeof *library);
  if (library == NULL)
    return NULL;
  library->blocks = aligned_alloc(ALIGNMENT, TRANSFORMS * D_MAX_BLOCKS_IN_MCU * sizeof *library->blocks);
  if (library->blocks == NULL || !create(library)) {
    free(library->blocks);
    free(library);
    return NULL;
  }
  return library;
}

void forebay_library_free(struct forebay_library *library)
{
  jpeg_destroy_decompress(&library->info);
  free(library->blocks);
  free(library);
}

void forebay_library_give_up(struct forebay_library *library)
{
  jpeg_abort_decompress(&library->info);
}

/* Makes ready for the scan of a JPEG reduced by `reduction`, as pixels of `colours` (1: luma, 3: RGB). 0 if it is not a
 * sound baseline JPEG of one scan. */
int forebay_library_start(struct forebay_library *library, const unsigned char *encoded, size_t length,
                          size_t memory, unsigned reduction, unsigned colours, struct forebay_scan *scan)
{
  j_decompress_ptr info = &library->info;
  if (setjmp(library->failed)) {
    jpeg_abort_decompress(info);
    return 0;
  }
  info->mem->max_memory_to_use = (long)memory;
  jpeg_mem_src(info, encoded, length);
  jpeg_read_header(info, TRUE);
  if (info->progressive_mode || info->arith_code || info->data_precision != 8 || info->Ss != 0 ||
      info->Se != DCTSIZE2 - 1 || info->num_components > COMPONENTS ||
      info->comps_in_scan != info->num_components) {
    jpeg_abort_decompress(info);
    return 0;
  }
  info->out_color_space = colours == 1 ? JCS_GRAYSCALE : JCS_EXT_RGB;
  info->scale_num = 1;
  info->scale_denom = reduction;
  info->dct_method = JDCT_ISLOW;
  info->do_fancy_upsampling = TRUE;
  jpeg_start_decompress(info);

  scan->begin = length - info->src->bytes_in_buffer;
  scan->width = info->output_width;
  scan->height = info->output_height;
  scan->mcus_per_row = info->MCUs_per_row;
  scan->mcu_rows = info->MCU_rows_in_scan;
  scan->restart_interval = info->restart_interval;
  scan->components = (unsigned)info->comps_in_scan;
  scan->blocks_in_mcu = (unsigned)info->blocks_in_MCU;
  for (int block = 0; block < info->blocks_in_MCU; block++)
    scan->component_of_block[block] = (unsigned)info->MCU_membership[block];
  for (int component = 0; component < info->comps_in_scan; component++) {
    const jpeg_component_info *of = info->cur_comp_info[component];
    scan->dc[component] = info->dc_huff_tbl_ptrs[of->dc_tbl_no];
    scan->ac[component] = info->ac_huff_tbl_ptrs[of->ac_tbl_no];
  }
  return 1;
}

/* Reads a region whose left border is one of an iMCU: rows of `width * colours` bytes to `out`. Blocks are transformed by
 * `transform`, or by the library where that is NULL. */
int forebay_library_read(struct forebay_library *library, struct forebay_region region, forebay_decode decode,
                         void *state, forebay_transform transform, unsigned char *out)
{
  j_decompress_ptr info = &library->info;
  if (setjmp(library->failed)) {
    jpeg_abort_decompress(info);
    return 0;
  }
  library->decode = decode;
  library->state = state;
  library->column = 0;
  library->first_column = 0;
  library->last_column = info->MCUs_per_row - 1;
  library->transform = transform;
  library->waiting = 0;
  info->entropy->decode_mcu = decode_mcu;
  if (transform != NULL && is_in_full(info))
    info->coef->decompress_data = decompress_data;

  if (region.width != info->output_width) {
    JDIMENSION x = region.x, width = region.width;
    unsigned column = (unsigned)info->min_DCT_scaled_size;
    if (info->num_components > 1)
      column *= (unsigned)info->max_h_samp_factor;
    jpeg_crop_scanline(info, &x, &width);
    if (x != region.x || width != region.width)
      fail((j_common_ptr)info);
    library->first_column = x / column;
    library->last_column = (x + width - 1) / column;
  }
  if (region.y > 0 && jpeg_skip_scanlines(info, region.y) != region.y)
    fail((j_common_ptr)info);
  size_t pitch = (size_t)region.width * (size_t)info->output_components;
  while (info->output_scanline < region.y + region.height) {
    JDIMENSION done = info->output_scanline - region.y, left = region.height - done;
    JSAMPROW rows[ROWS_AT_ONCE];
    for (JDIMENSION row = 0; row < ROWS_AT_ONCE && row < left; row++)
      rows[row] = out + (done + row) * pitch;
    jpeg_read_scanlines(info, rows, left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE);
  }
  jpeg_abort_decompress(info);
  return 1;
}
