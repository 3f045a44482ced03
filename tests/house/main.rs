//! Rules of the sources themselves: imports between files, licences of linked code, and words of comments.

mod circles;
mod floors;
mod notices;
mod paths;
mod words;
