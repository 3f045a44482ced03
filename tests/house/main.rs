//! What holds for the sources themselves: which file may import which, and the licences of what is linked.

mod circles;
mod floors;
mod notices;
mod paths;
