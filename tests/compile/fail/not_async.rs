//! A scenario that is no async function.

use loadtest::prelude::*;

fn flow(_vu: &Vu) -> Result {
    Ok(())
}

fn main() {
    let _ = scenario("flow", flow);
}
