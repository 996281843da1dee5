//! Runs and captures that the checker judges.

mod chaos;
mod kernels;
mod partial;
