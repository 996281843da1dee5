//! Captures of Linux kernels, scripts and corpora against the engine, and a second decoder.
mod corpora;
mod decline;
mod linux;
mod scripts;
mod second_decoder;
mod smcd;
