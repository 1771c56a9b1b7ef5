//! What a mistake in a scenario looks like: the compiler's words, pinned.

#[test]
fn misuse_of_the_scenario_api_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile/fail/*.rs");
}
