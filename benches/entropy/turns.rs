//! Contestants that take turns, and what came of it.

use std::time::Instant;

/// Seconds of each contestant for each image in each round.
pub(crate) struct Turns<const N: usize> {
    names: [&'static str; N],
    samples: Vec<[f64; N]>,
}

impl<const N: usize> Turns<N> {
    pub(crate) fn new(names: [&'static str; N]) -> Turns<N> {
        Turns { names, samples: vec![] }
    }

    /// The next image begins. Who comes when: another one first in every round.
    pub(crate) fn begin(&mut self, round: usize) -> impl Iterator<Item = usize> + use<N> {
        self.samples.push([0.0; N]);
        (0..N).map(move |turn| (turn + round) % N)
    }

    /// Does the work of a contestant; of several times with one image the last one counts.
    pub(crate) fn time(&mut self, turn: usize, work: impl FnOnce()) {
        let started = Instant::now();
        work();
        self.samples.last_mut().expect("an image that has begun")[turn] = started.elapsed().as_secs_f64();
    }

    /// A line for each: microseconds an image (median, 10th and 90th of a hundred, and the mean over images of their
    /// quickest round), then how often as quick as the first with the same image just then.
    pub(crate) fn print(&self, images: usize) {
        for (turn, name) in self.names.iter().enumerate() {
            let [low, mid, high] = spread(self.samples.iter().map(|of| of[turn] * 1e6));
            let [slow, times, quick] = spread(self.samples.iter().map(|of| of[0] / of[turn]));
            let quickest = |image: usize| {
                self.samples.iter().skip(image).step_by(images).map(|of| of[turn]).fold(f64::MAX, f64::min)
            };
            let least = (0..images).map(quickest).sum::<f64>() * 1e6 / images as f64;
            println!(
                "{name:30} {mid:7.1} us ({low:6.1} to {high:6.1}), quickest {least:7.1}, \
                 {times:5.2} x ({slow:.2} to {quick:.2})"
            );
        }
    }

    /// Something computed of an image's times.
    pub(crate) fn print_gain(&self, name: &str, gain: impl Fn(&[f64; N]) -> f64) {
        let [low, mid, high] = spread(self.samples.iter().map(gain));
        println!("{name:30} {mid:7.2}    ({low:.2} to {high:.2})");
    }
}

/// Every turn with an image, and before it with another one: so that each contestant meets its own code and tables in the
/// caches, as in a loop of its own, and the branches of an image that nobody has just decoded.
pub(crate) fn in_turns<T>(
    order: impl Iterator<Item = usize>,
    images: &[T],
    index: usize,
) -> impl Iterator<Item = (usize, &T)> {
    let another = (index + images.len() - 1) % images.len();
    order.flat_map(move |turn| [another, index].map(|index| (turn, &images[index])))
}

/// The 10th, the 50th and the 90th of a hundred.
fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [10, 50, 90].map(|percent| values[(values.len() - 1) * percent / 100])
}
