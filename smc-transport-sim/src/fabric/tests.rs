mod control;
mod faults;
mod order;
mod refusals;
mod tcp;
mod world;
