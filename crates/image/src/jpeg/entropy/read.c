/* All coefficients of a JPEG as the library alone decodes them: of any number of scans, Huffman-coded or arithmetic. */

#include "library.h"

/* Whether every bit of every coefficient was sent: the library smooths images that lack some. */
static int is_complete(j_decompress_ptr info)
{
  if (!info->progressive_mode)
    return 1;
  for (int component = 0; component < info->num_components; component++)
    for (int coefficient = 0; coefficient < DCTSIZE2; coefficient++)
      if (info->coef_bits[component][coefficient] != 0)
        return 0;
  return 1;
}

/* Hands the blocks of all MCUs of a scan of all components to the caller, from the first to the last. */
static void hand_over(j_decompress_ptr info, jvirt_barray_ptr *arrays, forebay_decode take, void *state)
{
  int is_alone = info->num_components == 1;
  const jpeg_component_info *first = &info->comp_info[0];
  JDIMENSION across = is_alone ? DCTSIZE : (JDIMENSION)info->max_h_samp_factor * DCTSIZE;
  JDIMENSION down = is_alone ? DCTSIZE : (JDIMENSION)info->max_v_samp_factor * DCTSIZE;
  JDIMENSION columns = is_alone ? first->width_in_blocks : (info->image_width + across - 1) / across;
  JDIMENSION rows = is_alone ? first->height_in_blocks : (info->image_height + down - 1) / down;
  for (JDIMENSION y = 0; y < rows; y++) {
    JBLOCKARRAY of_row[COMPONENTS];
    for (int component = 0; component < info->num_components; component++) {
      JDIMENSION height = is_alone ? 1 : (JDIMENSION)info->comp_info[component].v_samp_factor;
      of_row[component] =
          info->mem->access_virt_barray((j_common_ptr)info, arrays[component], y * height, height, FALSE);
    }
    for (JDIMENSION x = 0; x < columns; x++) {
      JBLOCKROW blocks[D_MAX_BLOCKS_IN_MCU];
      int block = 0;
      for (int component = 0; component < info->num_components; component++) {
        const jpeg_component_info *of = &info->comp_info[component];
        int width = is_alone ? 1 : of->h_samp_factor, height = is_alone ? 1 : of->v_samp_factor;
        for (int row = 0; row < height; row++)
          for (int column = 0; column < width; column++)
            blocks[block++] = of_row[component][row] + x * (JDIMENSION)width + column;
      }
      take(state, blocks);
    }
  }
}

/* The blocks of an MCU of all components; 0 where there are more than a scan may have. */
static int blocks_in_mcu(j_decompress_ptr info)
{
  int blocks = 0;
  for (int component = 0; component < info->num_components; component++)
    blocks += info->comp_info[component].h_samp_factor * info->comp_info[component].v_samp_factor;
  return info->num_components == 1 ? 1 : blocks <= D_MAX_BLOCKS_IN_MCU ? blocks : 0;
}

/* Reads a JPEG to its end, and hands over its blocks if it has every bit of every coefficient, and if each
 * MCU has `blocks` blocks. 0 if it is not sound. */
int forebay_library_coefficients(struct forebay_library *library, const unsigned char *encoded, size_t length,
                                 size_t memory, int blocks, forebay_decode take, void *state)
{
  j_decompress_ptr info = &library->info;
  if (setjmp(library->failed)) {
    jpeg_abort_decompress(info);
    return 0;
  }
  info->mem->max_memory_to_use = (long)memory;
  jpeg_mem_src(info, encoded, length);
  jpeg_read_header(info, TRUE);
  int is_ours = info->data_precision == 8 && info->num_components < COMPONENTS && blocks_in_mcu(info) == blocks;
  jvirt_barray_ptr *arrays = is_ours ? jpeg_read_coefficients(info) : NULL;
  int is_read = arrays != NULL && is_complete(info);
  if (is_read)
    hand_over(info, arrays, take, state);
  jpeg_abort_decompress(info);
  return is_read;
}
