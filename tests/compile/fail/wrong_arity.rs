//! An iteration with an argument that nobody gives.

use loadtest::prelude::*;

async fn flow(_vu: &Vu, _user: u64) -> Result {
    Ok(())
}

fn main() {
    let _ = scenario("flow", flow);
}
