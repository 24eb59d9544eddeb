//! Warnings: said once, to standard error, or to whom the program appoints.

use std::sync::{Arc, Mutex, PoisonError};

type Handler = Arc<dyn Fn(&str) + Send + Sync>;

static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);

/// Sends cmwq's warnings (one line each, without a newline) to `handler` instead of to standard error. The handler is
/// called with no lock of the engine held; it must not panic.
pub fn set_warning_handler(handler: impl Fn(&str) + Send + Sync + 'static) {
    *HANDLER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(handler));
}

pub(crate) fn warn(text: &str) {
    let handler = HANDLER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    match handler {
        Some(handler) => handler(text),
        None => eprintln!("cmwq: warning: {text}"),
    }
}
