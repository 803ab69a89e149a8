//! Generates the typed messages of each FIX version whose Cargo feature is enabled.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "typed")]
    typed::write();
}

#[cfg(feature = "typed")]
mod typed {
    use std::path::Path;
    use std::{env, fs};

    use transfix_dictionary::generate::{Options, generate};
    use transfix_dictionary::{STANDARD, standard};

    pub(super) fn write() {
        let directory = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
        for name in STANDARD {
            let feature = format!("CARGO_FEATURE_{}", name.to_uppercase());
            if env::var_os(feature).is_none() {
                continue;
            }
            let dictionary = standard(name).expect("a standard dictionary is sound");
            let options = Options::new(&name.to_lowercase()).codec("crate");
            let text = generate(&dictionary, &options).expect("all messages are wanted");
            let path = Path::new(&directory).join(format!("{}.rs", options.module()));
            fs::write(path, text).expect("OUT_DIR can be written");
        }
    }
}
