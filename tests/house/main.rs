//! Checks the sources themselves: imports between files, licences of linked code, and the wording of
//! comments.

mod circles;
mod floors;
mod notices;
mod paths;
mod words;
