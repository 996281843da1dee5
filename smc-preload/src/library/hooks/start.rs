//! The beginning of the process, and its children.

use crate::library::{config, real};

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // SAFETY: getauxval has no precondition.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    super::guard(|| config::start(is_privileged));
    // SAFETY: the handlers are functions of this library, which stays loaded.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    real::warm_up();
}

extern "C" fn forked() {
    config::forked();
}
