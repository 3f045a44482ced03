/* The declarations that the C files of this folder share: the decompressor, and the caller's function for
 * blocks. */

#ifndef FOREBAY_LIBRARY_H
#define FOREBAY_LIBRARY_H

#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#define COMPONENTS 4

/* Decodes the next MCU into its blocks, which are zeros before, or passes over it if `blocks` is NULL. From
 * forebay_library_coefficients it gets decoded blocks instead. */
typedef void (*forebay_decode)(void *state, JBLOCKROW *blocks);

/* The facts about a scan that Huffman decoding needs. The tables live until the scan is read or given up. */
struct forebay_scan {
  size_t begin;
  unsigned width, height;
  unsigned mcus_per_row, mcu_rows;
  unsigned restart_interval;
  unsigned components, blocks_in_mcu;
  unsigned component_of_block[D_MAX_BLOCKS_IN_MCU];
  const JHUFF_TBL *dc[COMPONENTS];
  const JHUFF_TBL *ac[COMPONENTS];
  /* The sampling factors of the components, and their tables of quantization or NULL. */
  unsigned across[COMPONENTS], down[COMPONENTS];
  const UINT16 *quantization[COMPONENTS];
  /* Samples across and down a block of the component at this scale: 8, 4, 2, or 1, its average. */
  unsigned side[COMPONENTS];
  /* The number of components if they are luma, or luma and two of chroma, in the order of the frame; else
   * 0. */
  unsigned luma_and_chroma;
};

struct forebay_region {
  unsigned x, y, width, height;
};

struct forebay_library {
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  jmp_buf failed;
  forebay_decode decode;
  void *state;
  JDIMENSION column, first_column, last_column;
};

#endif
