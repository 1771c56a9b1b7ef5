//! An iteration that returns `()` and so cannot fail.

use loadtest::prelude::*;

async fn flow(vu: &Vu) {
    let _ = vu.get("/").send().await;
}

fn main() {
    let _ = scenario("flow", flow);
}
