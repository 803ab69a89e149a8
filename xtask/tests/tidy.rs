//! The project follows its style rules: the same check as `cargo xtask tidy`.

#[test]
fn the_project_is_tidy() {
    if let Err(violations) = xtask::tidy::run() {
        panic!("\n{violations}\n");
    }
}

#[test]
fn the_pages_have_the_recorded_figures() {
    if let Err(wrong) = xtask::figures::check() {
        panic!("{wrong}");
    }
}

#[test]
fn each_snippet_of_the_book_is_compiled() {
    if let Err(wrong) = xtask::book::check() {
        panic!("{wrong}");
    }
}
