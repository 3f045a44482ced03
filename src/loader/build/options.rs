//! The methods of [`LoaderBuilder`] that set its options.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_arrow::datatypes::DataType;
use forebay_image::Image;

use super::LoaderBuilder;
use crate::batch::Fill;
use crate::cache::{DiskCache, Tier};
use crate::column::{AsStored, Clip, Decoder, Encoding, Follow, Pad, Stack, Tensor, TextFormat, Views};
use crate::loader::bad_rows::OnBadRow;
use crate::loader::deny::Deny;
use crate::loader::spec::{CacheSpec, Flatten, LoaderSpec};
use crate::reader::Filter;
use crate::samples::{RowCost, Samples};
use crate::shard::{Shard, Shuffle, Stop};

impl LoaderBuilder {
    /// Replaces all options, except the decoders of [`decode_with`](Self::decode_with).
    pub fn spec(mut self, spec: LoaderSpec) -> Self {
        self.tier = spec.cache.as_ref().map_or_else(Tier::default, |cache| cache.tier);
        (self.spec, self.cache) = (spec, None);
        self
    }

    /// Sets the columns to read, in the order of delivery; `*`, `?` and `[0-9]` match several names:
    /// `feature_*`. A column that is both named and matched by a pattern comes where it is named.
    /// `meta.author` reads only the field `author` of the structure `meta`, which is delivered with its named
    /// fields; its other fields are not fetched. Vectors of Spark ML, dense and sparse, are delivered as
    /// lists of all their values, and every other option sees these lists. Default: all columns.
    pub fn columns<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.spec.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Delivers the fields of structures as columns of their own, such as `meta.author`, at any depth: for
    /// all structures with `true`, or for the named columns. A field of a null structure is null. Other
    /// options refer to such a column by its delivered name. Structures that [`decode`](Self::decode) or a
    /// similar option names stay whole, and so do vectors of Spark ML. Default: none.
    ///
    /// ```no_run
    /// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
    /// dataset.loader().flatten(["meta"]).fill_null("meta.year", 0.0).build()
    /// # }
    /// ```
    pub fn flatten(mut self, flatten: impl Into<Flatten>) -> Self {
        self.spec.flatten = flatten.into();
        self
    }

    /// Delivers a column under another name. If the column is a pattern with one `*`, such as `I*`, the new
    /// name has a `*` too, such as `int_*`, which stands for the same text. A column that is renamed by its
    /// name is not renamed by a pattern. Other options use the new name, except [`columns`](Self::columns),
    /// `flatten` and filters, which use stored names. Default: names are as stored.
    ///
    /// ```no_run
    /// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
    /// dataset.loader().columns(["img", "y"]).rename("img", "image").rename("y", "label").build()
    /// # }
    /// ```
    pub fn rename(mut self, column: impl Into<String>, name: impl Into<String>) -> Self {
        self.spec.rename.insert(column.into(), name.into());
        self
    }

    /// Delivers the numbers of a column as another type, such as `Float32` or `Int64`. It converts integers,
    /// floats, booleans, decimals, text that is a number, times (to integers in the unit of the column), and
    /// lists of these. In names `*`, `?` and `[0-9]` match several columns. Other options see the type after
    /// the cast; a filter sees the stored one. Default: none.
    ///
    /// A value that the type cannot hold is a bad row: an integer out of range, a fraction for an integer
    /// type, or a finite number that would become infinite. A number becomes the nearest number of a
    /// floating-point type. For these types, decimals and text are first converted to `Float64`.
    ///
    /// ```no_run
    /// use forebay::arrow::datatypes::DataType;
    ///
    /// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
    /// dataset.loader().cast("price", DataType::Float32).cast("feature_*", DataType::Float16).build()
    /// # }
    /// ```
    pub fn cast(mut self, column: impl Into<String>, to: DataType) -> Self {
        self.spec.column(column).cast = Some(to.into());
        self
    }

    /// Decodes the encoded images of a column to pixels. Default: no column is decoded; images stay binary.
    pub fn decode(mut self, column: impl Into<String>, image: Image) -> Self {
        self.spec.column(column).decode = Some(image);
        self
    }

    /// Delivers several [`Views`](crate::column::Views) of each image of a column, in columns
    /// `<column>.<view>` in place of the stored one. Each image is decoded once for all its views. Default:
    /// none.
    pub fn views(mut self, column: impl Into<String>, views: Views) -> Self {
        self.spec.column(column).views = Some(views);
        self
    }

    /// Decodes the list of images in each row of a column, or the images of a window of rows, as one
    /// [`Clip`](crate::column::Clip). Default: none.
    pub fn clip(mut self, column: impl Into<String>, clip: Clip) -> Self {
        self.spec.column(column).clips = Some(clip);
        self
    }

    /// Crops, resizes and mirrors a column together with the image that it belongs to:
    /// [`Boxes`](crate::column::Boxes), [`Keypoints`](crate::column::Keypoints) or a
    /// [`Mask`](crate::column::Mask). The column of images is read and [decoded](Self::decode) as well.
    /// Default: none.
    pub fn follow(mut self, column: impl Into<String>, follow: impl Into<Follow>) -> Self {
        self.spec.column(column).follow = Some(follow.into());
        self
    }

    /// Decodes the cells of a column with your own [`Decoder`]: binary values, text, or
    /// `struct<bytes, path>`. They are delivered as tensors of one shape, like images. Default: none.
    pub fn decode_with(mut self, column: impl Into<String>, decoder: Arc<dyn Decoder>) -> Self {
        self.decoders.push((column.into(), decoder));
        self
    }

    /// Delivers the cells of a column as tensors of one shape: from raw bytes, files of numpy, or lists of
    /// numbers. Default: cells are as stored.
    pub fn decode_tensor(mut self, column: impl Into<String>, tensor: Tensor) -> Self {
        self.spec.column(column).tensors = Some(tensor);
        self
    }

    /// Checks the cells of a column of text, or of text in binary values: as UTF-8, or as JSON. A cell that
    /// fails is a bad row. Default: text and binary are delivered as stored.
    pub fn decode_text(mut self, column: impl Into<String>, format: TextFormat) -> Self {
        self.spec.column(column).texts = Some(format);
        self
    }

    /// Delivers a column as it is stored, whatever the schema that Petastorm wrote beside the files says
    /// about it. In names `*`, `?` and `[0-9]` match several columns; if `*` matches all columns, the schema
    /// is not read. Default: columns that have a codec in such a schema are decoded by it, unless another
    /// option says how to decode them.
    ///
    /// The schema is the one in the folder that was opened, or in the folder of a glob; see
    /// [`Dataset::petastorm_schema`](crate::Dataset::petastorm_schema). Numbers get the type that it
    /// declares. Arrays and images of a fixed shape are tensors; a row with another shape, type or depth is
    /// bad. Arrays with a dimension that differs from row to row become lists, also arrays of text; images
    /// with such a dimension are delivered like those of [`Image::ragged`].
    pub fn as_stored(mut self, column: impl Into<String>) -> Self {
        self.spec.column(column).as_stored = Some(AsStored);
        self
    }

    /// Delivers the values of a column as integer codes: texts, binary values or integers, or lists of these.
    /// Default: values are as stored.
    pub fn encode(mut self, column: impl Into<String>, encoding: impl Into<Encoding>) -> Self {
        self.spec.column(column).encode = Some(encoding.into());
        self
    }

    /// Delivers lists of numbers as rows of one length: padded at their end, or cut off. Default: lists keep
    /// their length.
    pub fn pad(mut self, column: impl Into<String>, pad: Pad) -> Self {
        self.spec.column(column).pad = Some(pad);
        self
    }

    /// Delivers many columns as one: a tensor for each row, with one value for each column of the [`Stack`],
    /// written side by side into the batch's own memory. The columns of a stack are read even if they are not
    /// among [`columns`](Self::columns), and are not delivered themselves. They take `cast`, `encode` and
    /// `fill_null`. The name of the stack may be given to [`null_mask`](Self::null_mask) and `fill_null` too;
    /// the mask then has the shape of the stack. Without one of these options, a null makes a bad row, and
    /// the error names its column. Stacks come after all other columns. Default: none.
    ///
    /// ```no_run
    /// use forebay::arrow::datatypes::DataType;
    /// use forebay::column::Stack;
    ///
    /// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
    /// let numbers = Stack::new(["I*"]).dtype(DataType::Float32);
    /// dataset.loader().columns(["label"]).stack("x", numbers).fill_null("x", 0.0).build()
    /// # }
    /// ```
    pub fn stack(mut self, name: impl Into<String>, stack: Stack) -> Self {
        self.spec.stack.insert(name.into(), stack);
        self
    }

    /// Replaces the nulls of a column by a value of the column's type: a number, a text, or bytes. For times
    /// the number counts in the unit of the column, and for booleans it is 0 or 1. In fixed-length binary the
    /// value fills each byte. In lists it replaces each null item. A null list becomes an empty list, or, if
    /// lists have a fixed length, a list with this value as each item. In a null image, mask, tensor or
    /// decoded cell all delivered numbers are the value (for an image, after normalisation); an image that is
    /// delivered in its own size becomes empty. In names `*`, `?` and `[0-9]` match several columns, as in
    /// all options by column. Default: nulls are delivered; in columns that are decoded or encoded they are
    /// bad rows, unless an encoding [has a code for them](crate::column::Encoding::with_null).
    pub fn fill_null(mut self, column: impl Into<String>, value: impl Into<Fill>) -> Self {
        self.spec.column(column).fill_null = Some(value.into());
        self
    }

    /// Delivers a mask for each of these columns, which says which values are present: a column of booleans
    /// `<name>.mask` after the stored columns, false for a null. Where the mask is false, the column itself
    /// has the value of [`fill_null`](Self::fill_null), or else 0, an empty text or no bytes. Masks exist for
    /// numbers, booleans, times, text and binary; for lists of a fixed length, with one boolean for each
    /// list; for images, masks, tensors and decoded cells; and for boxes and points (a null row then has
    /// none). In names `*`, `?` and `[0-9]` match several columns. Default: none.
    ///
    /// In a row with a null image, the columns that follow it have no boxes and points, and a
    /// [`Mask`](crate::column::Mask) is 0 or has the value of its own `fill_null`.
    ///
    /// A null in a list that is not null itself is a bad row, unless `fill_null` gives a value.
    pub fn null_mask<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.spec.null_mask = names.into_iter().map(Into::into).collect();
        self
    }

    /// Delivers the number of each row, its [`RowId`](forebay_store::catalog::RowId), as a last column
    /// `row_id` of `Int64`. Default: false.
    pub fn row_id(mut self, row_id: bool) -> Self {
        self.spec.row_id = row_id;
        self
    }

    /// Delivers a last column `row_mask` of `Boolean`, which is false for a row that is
    /// [repeated](crate::plan::RankReads::padded) because a rank would otherwise be without a batch. Without
    /// the rows where it is false, each row of an epoch counts once over all ranks. Default: false.
    pub fn row_mask(mut self, row_mask: bool) -> Self {
        self.spec.row_mask = row_mask;
        self
    }

    /// Reads only the rows that match a [`Filter`] or an [expression](crate::filter::Expr). Default: all
    /// rows.
    pub fn filter(mut self, filter: impl Into<Filter>) -> Self {
        self.spec.filter = Some(filter.into());
        self
    }

    /// Leaves rows out of every epoch: those in a list of row numbers, or those with certain values in a
    /// column. The lengths of epochs and the shares of ranks stay exact, as with a filter. A position that
    /// was saved with another list can be restored only between two epochs. Default: none.
    ///
    /// ```no_run
    /// use forebay::{Dataset, Deny};
    ///
    /// let loader = Dataset::open("data/train/")?.loader().deny(Deny::read("bad-rows.txt")?).build()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn deny(mut self, deny: Deny) -> Self {
        self.spec.deny = deny;
        self
    }

    /// Leaves rows out of all batches that come at or after a step. The step is counted as in
    /// [`skip_steps`](Self::skip_steps), and may be in the middle of an epoch: the denied rows stay in the
    /// order, so that no other row moves, but they are left out of their batches, like bad rows that are
    /// [skipped](OnBadRow::Skip). Samples that have such a row are left out too. Rows are denied by their
    /// numbers. A position has a hash of the rows that were left out before it. Default: none.
    ///
    /// ```no_run
    /// use forebay::{Dataset, Deny};
    ///
    /// let bad = Deny::read("bad-rows.txt")?;
    /// let loader = Dataset::open("data/train/")?.loader().deny_from(4_000, bad).build()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn deny_from(mut self, step: u64, deny: Deny) -> Self {
        self.spec.deny_from.push((step, deny));
        self
    }

    /// Skips steps. Each range has the first step to skip and the step after the last one. Steps have this
    /// loader's batch size and are counted from the first step of epoch 0 through all epochs, skipped steps
    /// included; [`which`](crate::Loader::which) counts the steps of an epoch in the same way. If no ranges
    /// are given, those of a restored position are skipped. Default: none.
    ///
    /// ```no_run
    /// let dataset = forebay::Dataset::open("data/train/")?;
    /// let loader = dataset.loader().skip_steps([(4_000, 4_010)]).build()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn skip_steps(mut self, ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        self.spec.skip_steps = ranges.into_iter().collect();
        self
    }

    /// Defines a sample: a row, or several of them, such as a [`Window`](crate::samples::Window), a
    /// [`Pack`](crate::samples::Pack) or a [`Bucket`](crate::samples::Bucket). Batches, plans and positions
    /// count samples; the window of a shuffle counts rows. Default: a row.
    pub fn samples(mut self, samples: impl Into<Samples>) -> Self {
        self.spec.samples = samples.into();
        self
    }

    /// Sets the number of this process and the number of all processes, which divide the rows of each step.
    /// Default: one process, which gets all rows.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.spec.shard = shard;
        self
    }

    /// Sets the order of the rows. Default: as stored.
    pub fn shuffle(mut self, shuffle: Shuffle) -> Self {
        self.spec.shuffle = shuffle;
        self
    }

    /// Orders rows by their cost, so that in each step all ranks have about the same work, and all steps have
    /// about the same work too. A [`RowCost`] is a column, which stands for its number or for the length of
    /// its list or text, or arithmetic on columns. Up to four costs may be given, and all of them are
    /// balanced. A bucket costs as much as its rows together, and so does a pack. There is one exception: a
    /// pack that is balanced by the packed column costs the sum of the squares of the lengths in it, which is
    /// the work of attention within documents.
    ///
    /// The order depends on the costs and on the shuffle. Each place in a lane (one of the parallel parts of
    /// the order) has a target, which is the same in all lanes, and gets a row whose rank by cost is near
    /// this target. Then rows that are near each other in this rank are exchanged, until each run of 8 rows
    /// costs as much as its targets say. The more rows a row group and the window have, the nearer the costs
    /// come to their targets. A shuffle with a window is required. The columns are read before the first
    /// epoch, and their numbers and lengths are kept on local disk. Default: costs do not matter.
    ///
    /// ```no_run
    /// use forebay::filter::col;
    /// use forebay::{Dataset, Shuffle};
    ///
    /// let dataset = Dataset::open("data/train/")?;
    /// let loader = dataset.loader().shuffle(Shuffle::seeded(17));
    /// let by_length = loader.clone().balance(["text"]).build()?;
    /// let by_work = loader.balance([col("text") * col("text"), col("patches")]).build()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn balance<C: Into<RowCost>>(mut self, costs: impl IntoIterator<Item = C>) -> Self {
        self.spec.balance = costs.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the number of rows in a batch of one rank. Default: [`LoaderSpec::BATCH_SIZE`], 32.
    pub fn batch_size(mut self, rows: u64) -> Self {
        self.spec.batch_size = rows;
        self
    }

    /// Sets the number of rows in a step over all ranks, instead of [`batch_size`](Self::batch_size). Any
    /// number of ranks can share them: their batches then differ by at most one row, and a step has the same
    /// rows for any number of ranks. Default: `batch_size` rows for each rank.
    pub fn global_batch_size(mut self, rows: u64) -> Self {
        self.spec.global_batch_size = Some(rows);
        self
    }

    /// Leaves out the rows at the end of an epoch that do not fill a batch on every rank. Default: false; the
    /// last batch is then shorter.
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.spec.drop_last = drop_last;
        self
    }

    /// Sets the number of epochs of the run: `0..epochs`. Nothing is fetched ahead after the last of them.
    /// Default: unknown. Towards the end of each epoch the beginning of the next one is then fetched, which
    /// is wasted if the run stops there.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.spec.epochs = Some(epochs);
        self
    }

    /// Sets the memory budget in bytes. It covers requests, the shuffle window and the lists that mix it,
    /// batches that are made ahead, images while they are decoded, and the part of the footers of many files
    /// that stays in memory. The process takes at most 150 MiB beyond it. Default: 4 GiB, or half of the
    /// memory of the machine or container if that is less.
    ///
    /// Decoding images may take a quarter of the budget, and 48 MiB in any case. An image that would take
    /// more is a bad row with [`ErrorKind::TooLarge`](forebay_base::ErrorKind::TooLarge); the error says how
    /// much memory it takes, and which budget is enough.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.spec.memory = Some(bytes);
        self
    }

    /// Sets the number of threads that decode. Default: the number of processors that this process may use.
    pub fn threads(mut self, threads: usize) -> Self {
        self.spec.threads = Some(threads);
        self
    }

    /// Keeps decoded rows on local disk, and reads them from there. Default: no cache.
    ///
    /// The order of rows does not depend on the cache. An exact shuffle over more rows than the memory holds
    /// needs a cache, and its first epoch begins when all rows are in the cache.
    pub fn cache(mut self, cache: DiskCache) -> Self {
        let spec = CacheSpec { tier: self.tier, ..CacheSpec::new(cache.folder(), cache.max_bytes()) };
        (self.spec.cache, self.cache) = (Some(spec), Some(cache));
        self
    }

    /// Sets the form in which the cache keeps images; [`Tier::Auto`], the default, also decides whether it
    /// keeps anything.
    ///
    /// With [`Tier::Pixels`] images are not decoded again from the second epoch on. This takes several times
    /// the disk space: 3 bytes for each pixel of the image, or of the result if no random crop comes first.
    /// With [`Tier::Resized`] images are kept as JPEGs of the largest size that is needed; an image that
    /// would hardly be smaller is kept as stored. With [`Tier::Coefficients`] the coefficients of JPEGs are
    /// kept, which take a quarter to a half more disk space than the JPEGs, and from which every size and
    /// crop is decoded to the same pixels. Row groups whose images would take more than an eighth of the
    /// memory in such a form are kept as rows, and so are all row groups if the cache's folder cannot be
    /// mapped into memory.
    ///
    /// [`Tier::Auto`] begins with images as stored. It changes to another form for the epoch after next if,
    /// in an epoch, the consumer waited for images to be decoded, the cache can hold all of them in that
    /// form, and the disk delivers them at least twice as fast as the loader delivered them in this epoch. If
    /// images then come more slowly than before, it changes back. A loader that is ahead of its consumer
    /// keeps its form. For local files without such images the cache keeps nothing if all rows stay in
    /// memory, or if a measurement shows that reading rows again is not slower;
    /// [`stats`](crate::Loader::stats) say so.
    pub fn cache_tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        if let Some(cache) = &mut self.spec.cache {
            cache.tier = tier;
        }
        self
    }

    /// Sets what happens to rows that cannot be delivered. Default: they raise an error.
    pub fn on_bad_row(mut self, on_bad_row: OnBadRow) -> Self {
        self.spec.on_bad_row = on_bad_row;
        self
    }

    /// Writes a timeline of the loader to a file that Perfetto (<https://ui.perfetto.dev>) and
    /// `chrome://tracing` open. It has JSON trace events for row groups that are fetched and decoded, for
    /// batches and for waits.
    ///
    /// The file is written when the loader is closed or dropped. For a long run it holds the last 200,000
    /// spans, and says how many earlier ones are missing. Default: no timeline, which costs nothing.
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.spec.trace = Some(path.into());
        self
    }

    /// Gives a [mix](crate::Loader::mix) other weights from a step on, counted through all epochs: one weight
    /// for each source. Positions save these weights. Default: the weights of the sources throughout.
    pub fn weights_from(mut self, step: u64, weights: impl IntoIterator<Item = f64>) -> Self {
        self.spec.schedule.push((step, weights.into_iter().collect()));
        self
    }

    /// Makes the weights of a [mix](crate::Loader::mix) count a cost, such as tokens, instead of samples: a
    /// source with weight 0.3 then gives 0.3 of the cost of all samples. Give one cost for all sources, or
    /// one for each. A column stands for its number in a row, or for the length of its list or text; a null
    /// counts as 0.
    ///
    /// The weight of a source is divided by its mean cost, that of all its selected rows divided by the
    /// number of its samples. The result is rounded like weights that count samples, and positions save it.
    /// The shares of the cost hold on average: exactly over whole passes, and in a single step as far as its
    /// samples cost the mean. Sources of windows and of rows drawn by weight are refused. The columns are
    /// read once before the first epoch. Default: weights count samples.
    ///
    /// ```no_run
    /// use forebay::{Dataset, Loader};
    ///
    /// let chats = Dataset::open("s3://acme/chats/")?.loader();
    /// let books = Dataset::open("s3://acme/books/")?.loader();
    /// let half_of_the_tokens_each = Loader::mix([(chats, 0.5), (books, 0.5)])?.by(["tokens"]).build()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn by<C: Into<RowCost>>(mut self, costs: impl IntoIterator<Item = C>) -> Self {
        self.spec.by = costs.into_iter().map(Into::into).collect();
        self
    }

    /// Draws the source of each row of a [mix](crate::Loader::mix) at random, from this seed. The weight of a
    /// source is its probability. A step then has the share of a source only on average, but the first 32
    /// steps together have it exactly, and so does each following block of 32. A source is drawn for one row
    /// of each lane (parallel part of the order) at a time, and all epochs draw the same sources. Default:
    /// each step has the exact share of each source.
    pub fn random_shares(mut self, seed: u64) -> Self {
        self.spec.random_shares = Some(seed);
        self
    }

    /// Sets when an epoch of a [mix](crate::Loader::mix) ends. A step with the last rows of a source is
    /// shorter, and [`drop_last`](Self::drop_last) leaves it out. Default: with the first source that ends.
    pub fn stop(mut self, stop: Stop) -> Self {
        self.spec.stop = stop;
        self
    }

    /// Sets whether a source of a [mix](crate::Loader::mix) starts over if it ends before the epoch does,
    /// which is possible if the epoch ends with the [last](Stop::Last) source. Otherwise the other sources
    /// share the remaining steps, and each row is delivered once. Default: true.
    pub fn repeat(mut self, repeat: bool) -> Self {
        self.spec.repeat = repeat;
        self
    }

    /// Sets the most passes over each source of a [mix](crate::Loader::mix) in an epoch, with `None` for no
    /// limit. It applies to a mix that stops with the [last](Stop::Last) source and repeats the others. After
    /// its last pass a source is left out, and the others share the remaining steps. Default: no limit.
    pub fn max_passes(mut self, passes: impl IntoIterator<Item = Option<u64>>) -> Self {
        self.spec.max_passes = passes.into_iter().collect();
        self
    }

    /// Delivers a last column `source` of `Int64` with the number of each row's source in the
    /// [mix](crate::Loader::mix), from 0. Default: false.
    pub fn source(mut self, source: bool) -> Self {
        self.spec.source = source;
        self
    }
}
