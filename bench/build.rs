//! Passes cargo's profile to the program, because each figure is valid for one profile only.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The path TARGET/PROFILE/build/PACKAGE/out is the only place where cargo names a custom
    // profile.
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let profile = profile.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    println!("cargo::rustc-env=TRANSFIX_PROFILE={profile}");
}
