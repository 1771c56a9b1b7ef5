//! One request a transaction, and nothing else: the same as the scenario beside it, as Goose's first example has it.

use goose::prelude::*;

async fn get_root(user: &mut GooseUser) -> TransactionResult {
    user.get("/").await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), GooseError> {
    let scenario = scenario!("getroot").register_transaction(transaction!(get_root));
    let metrics = GooseAttack::initialize()?.register_scenario(scenario).execute().await?;
    let requests = || metrics.requests.values();
    let succeeded: usize = requests().map(|request| request.success_count).sum();
    let failed: usize = requests().map(|request| request.fail_count).sum();
    println!("{succeeded} requests succeeded, {failed} failed");
    Ok(())
}
