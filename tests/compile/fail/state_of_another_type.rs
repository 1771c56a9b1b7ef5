//! An iteration that takes another type than the setup returns.

use loadtest::prelude::*;

fn main() {
    let _ = stateful("flow")
        .setup(async |_: &Vu| -> Result<u64> { Ok(1) })
        .iteration(async |_: &Vu, _: &mut (), _posts: &String| -> Result { Ok(()) });
}
