//! The runtimes whose driver tasks poll the device of an endpoint.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::tokio::io::Interest;
use ::tokio::runtime::{Handle, Id, RuntimeFlavor};

use super::driver::{self, Device};
use super::driver_task::{After, DriverTask};
use super::in_place::InPlace;
use super::registered::Registered;
use crate::shard::Shard;

/// The runtimes that poll the device of an endpoint.
#[derive(Default)]
pub(crate) struct Runtimes {
    known: Mutex<Known>,
    /// Whether attempts to read poll for a moment.
    pub(crate) in_place: InPlace,
}

#[derive(Default)]
struct Known {
    tasks: Vec<Arc<DriverTask>>,
    /// Runtimes whose tasks cannot wait for a descriptor.
    without_io: Vec<Id>,
}

/// Runtimes without I/O that are remembered. One that was forgotten is found out again.
const MOST_WITHOUT_IO: usize = 64;

impl Runtimes {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Runtimes {
    fn drop(&mut self) {
        let known = self.known.get_mut();
        for task in &known.unwrap_or_else(PoisonError::into_inner).tasks {
            task.wake();
        }
    }
}

impl Known {
    /// The task that polls the device in a runtime.
    fn task_of(&self, runtime: Id) -> Option<&Arc<DriverTask>> {
        self.tasks.iter().find(|task| task.polls_in(runtime))
    }
}

/// Has the worker of the calling task go on with the driver task of its runtime, which polls at
/// once.
pub(super) fn take_over(shard: &Shard, after: After) {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    let task = shard.runtimes.lock().task_of(runtime.id()).cloned();
    if let Some(task) = task {
        task.take_over(after);
    }
}

/// Sees to it that the runtime of the calling task polls the device. False without a runtime,
/// in one without I/O, and if no descriptor is left: the driver thread has to poll then.
pub(super) fn ensure(shard: &Arc<Shard>) -> bool {
    let Ok(runtime) = Handle::try_current() else {
        return false;
    };
    let id = runtime.id();
    let mut known = shard.runtimes.lock();
    if known.without_io.contains(&id) {
        return false;
    }
    let is_multi_thread = runtime.runtime_flavor() != RuntimeFlavor::CurrentThread;
    if let Some(task) = known.task_of(id) {
        if !is_multi_thread && ::tokio::task::try_id().is_none() {
            task.note_root();
        }
        return true;
    }
    let Known { tasks, without_io } = &mut *known;
    tasks.retain(|task| task.is_alive());
    let Ok(fd) = shard.device_descriptor() else {
        return false;
    };
    let register = || Registered::new(Device(fd), Interest::READABLE);
    let descriptor = match catch_unwind(AssertUnwindSafe(register)) {
        Ok(Ok(descriptor)) => descriptor,
        Ok(Err(_)) => return false,
        // tokio panics if its runtime has no I/O.
        Err(_) => {
            if without_io.len() >= MOST_WITHOUT_IO {
                without_io.remove(0);
            }
            without_io.push(id);
            return false;
        }
    };
    let task = Arc::new(DriverTask::new(id));
    tasks.push(task.clone());
    drop(known);
    driver::spawn(&runtime, shard, task, descriptor);
    true
}
