mod control;
mod faults;
mod hosts;
mod lasting;
mod order;
mod refusals;
mod tcp;
mod world;
