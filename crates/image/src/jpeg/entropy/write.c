/* A baseline JPEG of coefficients that the caller has, with Huffman tables that are made for it.
 *
 * Quantisation, sampling, size and colour space are those of the JPEG that the decompressor has begun. As there, whatever
 * the library complains about ends a call with 0.
 */

#include "library.h"

#define FIRST_CAPACITY 65536

/* Bytes from malloc. */
struct forebay_bytes {
  unsigned char *start;
  size_t length;
};

struct writer {
  struct jpeg_compress_struct info;
  struct jpeg_error_mgr errors;
  struct jpeg_destination_mgr destination;
  jmp_buf failed;
  struct forebay_bytes out;
  size_t capacity;
  jpeg_scan_info scans[COMPONENTS];
};

static void fail(j_common_ptr info)
{
  longjmp(((struct writer *)info->client_data)->failed, 1);
}

static void fail_on_warning(j_common_ptr info, int level)
{
  if (level < 0)
    fail(info);
}

/* Makes room behind the bytes that are there. */
static void grow(struct writer *writer, size_t capacity)
{
  unsigned char *start = realloc(writer->out.start, capacity);
  if (start == NULL)
    fail((j_common_ptr)&writer->info);
  writer->out.start = start;
  writer->capacity = capacity;
  writer->destination.next_output_byte = start + writer->out.length;
  writer->destination.free_in_buffer = capacity - writer->out.length;
}

static void begin(j_compress_ptr info)
{
  grow(info->client_data, FIRST_CAPACITY);
}

static boolean is_full(j_compress_ptr info)
{
  struct writer *writer = info->client_data;
  writer->out.length = writer->capacity;
  grow(writer, 2 * writer->capacity);
  return TRUE;
}

static void end(j_compress_ptr info)
{
  struct writer *writer = info->client_data;
  writer->out.length = writer->capacity - writer->destination.free_in_buffer;
}

static JDIMENSION padded(JDIMENSION blocks, int factor)
{
  return (blocks + (JDIMENSION)factor - 1) / (JDIMENSION)factor * (JDIMENSION)factor;
}

/* Has the caller fill the blocks of all MCUs, from the first to the last. */
static void fill(j_decompress_ptr from, j_compress_ptr to, jvirt_barray_ptr *arrays, forebay_decode decode, void *state)
{
  for (JDIMENSION y = 0; y < from->MCU_rows_in_scan; y++) {
    JBLOCKARRAY rows[COMPONENTS];
    for (int component = 0; component < from->comps_in_scan; component++) {
      const jpeg_component_info *of = from->cur_comp_info[component];
      JDIMENSION height = (JDIMENSION)of->MCU_height;
      jvirt_barray_ptr array = arrays[of->component_index];
      rows[component] = to->mem->access_virt_barray((j_common_ptr)to, array, y * height, height, TRUE);
    }
    for (JDIMENSION x = 0; x < from->MCUs_per_row; x++) {
      JBLOCKROW blocks[D_MAX_BLOCKS_IN_MCU];
      int block = 0;
      for (int component = 0; component < from->comps_in_scan; component++) {
        const jpeg_component_info *of = from->cur_comp_info[component];
        for (int row = 0; row < of->MCU_height; row++)
          for (int column = 0; column < of->MCU_width; column++)
            blocks[block++] = rows[component][row] + x * (JDIMENSION)of->MCU_width + column;
      }
      decode(state, blocks);
    }
  }
}

/* Gives each component a scan of its own. */
static void set_apart(struct writer *writer)
{
  j_compress_ptr to = &writer->info;
  for (int component = 0; component < to->num_components; component++) {
    jpeg_scan_info *scan = &writer->scans[component];
    scan->comps_in_scan = 1;
    scan->component_index[0] = component;
    scan->Se = DCTSIZE2 - 1;
  }
  to->scan_info = writer->scans;
  to->num_scans = to->num_components;
}

static int write_all(struct writer *writer, struct forebay_library *library, forebay_decode decode, void *state,
                     int apart, const unsigned char *exif, size_t exif_length)
{
  j_decompress_ptr from = &library->info;
  j_compress_ptr to = &writer->info;
  jvirt_barray_ptr arrays[COMPONENTS];
  to->err = jpeg_std_error(&writer->errors);
  writer->errors.error_exit = fail;
  writer->errors.emit_message = fail_on_warning;
  to->client_data = writer;
  if (setjmp(writer->failed))
    return 0;
  jpeg_create_compress(to);
  to->mem->max_memory_to_use = from->mem->max_memory_to_use;
  writer->destination.init_destination = begin;
  writer->destination.empty_output_buffer = is_full;
  writer->destination.term_destination = end;
  to->dest = &writer->destination;
  jpeg_copy_critical_parameters(from, to);
  /* It is also what checks that each coefficient has a code. */
  to->optimize_coding = TRUE;
  if (apart && to->num_components > 1)
    set_apart(writer);
  for (int component = 0; component < from->num_components; component++) {
    const jpeg_component_info *of = &from->comp_info[component];
    JDIMENSION width = padded(of->width_in_blocks, of->h_samp_factor);
    JDIMENSION height = padded(of->height_in_blocks, of->v_samp_factor);
    arrays[component] = to->mem->request_virt_barray((j_common_ptr)to, JPOOL_IMAGE, TRUE, width, height,
                                                     (JDIMENSION)of->v_samp_factor);
  }
  jpeg_write_coefficients(to, arrays);
  if (exif_length > 0)
    jpeg_write_marker(to, JPEG_APP0 + 1, exif, (unsigned)exif_length);
  fill(from, to, arrays, decode, state);
  jpeg_finish_compress(to);
  return 1;
}

void forebay_bytes_free(struct forebay_bytes bytes)
{
  free(bytes.start);
}

/* Writes the image whose scan was begun, with `exif` as its segment APP1 if it has any bytes, and with a scan for each
 * component if they are to be `apart`. The caller frees `out`. */
int forebay_library_write(struct forebay_library *library, forebay_decode decode, void *state, int apart,
                          const unsigned char *exif, size_t exif_length, struct forebay_bytes *out)
{
  struct writer *writer = calloc(1, sizeof *writer);
  if (writer == NULL)
    return 0;
  int written = write_all(writer, library, decode, state, apart, exif, exif_length);
  jpeg_destroy_compress(&writer->info);
  if (written)
    *out = writer->out;
  else
    free(writer->out.start);
  free(writer);
  return written;
}
