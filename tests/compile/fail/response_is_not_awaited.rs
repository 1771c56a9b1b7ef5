//! A request whose response is not awaited.

use loadtest::prelude::*;

async fn flow(vu: &Vu) -> Result {
    vu.get("/").send()?;
    Ok(())
}

fn main() {
    let _ = scenario("flow", flow);
}
