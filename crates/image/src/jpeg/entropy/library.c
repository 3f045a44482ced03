/* libjpeg-turbo's decompressor for baseline JPEG, with Huffman decoding left to the caller.
 *
 * Whatever the library would complain about, a warning as well as an error, ends a call with 0; what was wrong is not
 * said. The decompressor can be used again after that.
 */

#include "library.h"

/* The library's private structure begins with these in every version so far. */
#if LIBJPEG_TURBO_VERSION_NUMBER < 3000000 || LIBJPEG_TURBO_VERSION_NUMBER >= 4000000
#error "compare the structure below with jpegint.h of this version of libjpeg-turbo"
#endif
struct jpeg_entropy_decoder {
  void (*start_pass)(j_decompress_ptr info);
  boolean (*decode_mcu)(j_decompress_ptr info, JBLOCKROW *blocks);
};

#define ROWS_AT_ONCE 16

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

/* The number of components if they are luma alone or with two of chroma, in this order; else 0. */
static unsigned luma_and_chroma(j_decompress_ptr info)
{
  for (int component = 0; component < info->comps_in_scan; component++)
    if (info->cur_comp_info[component]->component_index != component)
      return 0;
  int is_one = info->jpeg_color_space == JCS_GRAYSCALE && info->num_components == 1;
  int are_three = info->jpeg_color_space == JCS_YCbCr && info->num_components == 3;
  return is_one || are_three ? (unsigned)info->num_components : 0;
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
  if (!create(library)) {
    free(library);
    return NULL;
  }
  return library;
}

void forebay_library_free(struct forebay_library *library)
{
  jpeg_destroy_decompress(&library->info);
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
    scan->across[component] = (unsigned)of->h_samp_factor;
    scan->down[component] = (unsigned)of->v_samp_factor;
    scan->side[component] = (unsigned)of->DCT_scaled_size;
    scan->quantization[component] = of->quant_table != NULL ? of->quant_table->quantval : NULL;
  }
  scan->luma_and_chroma = luma_and_chroma(info);
  return 1;
}

/* Reads a region whose left border is one of an iMCU: rows of `width * colours` bytes to `out`. */
int forebay_library_read(struct forebay_library *library, struct forebay_region region, forebay_decode decode,
                         void *state, unsigned char *out)
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
  info->entropy->decode_mcu = decode_mcu;

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
