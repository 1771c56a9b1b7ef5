//! Panics of a scenario's code: caught, with message and place, and counted instead of printed.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{self, UnwindSafe};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`; a panic becomes its message and place, such as `panicked at loadtests/auth.rs:12:9: boom`.
pub(crate) async fn catch<F: Future + UnwindSafe>(work: F) -> Result<F::Output, String> {
    install_hook();
    let mut work = pin!(futures_util::FutureExt::catch_unwind(work));
    let ended = std::future::poll_fn(move |cx| {
        let outside = INSIDE.replace(true);
        let polled = work.as_mut().poll(cx);
        INSIDE.set(outside);
        match polled {
            Poll::Ready(ended) => Poll::Ready(ended),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    ended.map_err(|_| LAST.take().unwrap_or_else(|| "panicked".into()))
}

/// The hook notes panics inside [`catch`]; all others go to the hook that was there before.
fn install_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !INSIDE.get() {
                return before(panic);
            }
            let place = panic.location().map(|at| format!(" at {at}")).unwrap_or_default();
            let payload = panic.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let message = text.unwrap_or("(a payload that is no text)");
            LAST.set(Some(format!("panicked{place}: {message}")));
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::AssertUnwindSafe;

    #[test]
    fn a_panic_becomes_its_place_and_message() {
        let run = |work| futures_util::FutureExt::now_or_never(catch(AssertUnwindSafe(work))).unwrap();
        let panicking = async {
            let empty: Vec<u32> = Vec::new();
            assert!(!empty.is_empty(), "nothing in {}", "here");
        };
        let message = run(futures_util::FutureExt::boxed(panicking)).unwrap_err();
        assert!(message.starts_with("panicked at src/runtime/host/panics.rs:"), "{message}");
        assert!(message.ends_with(": nothing in here"), "{message}");
        assert_eq!(run(futures_util::FutureExt::boxed(async {})), Ok(()));
    }
}
