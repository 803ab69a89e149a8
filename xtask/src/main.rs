//! The project's own commands: `cargo xtask <verb>`.

use std::process::ExitCode;

mod peers;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = arguments.split_first().map_or(("", &[][..]), |(v, r)| (v.as_str(), r));
    match verb {
        "peers" => peers::main(rest),
        _ => ExitCode::from(2),
    }
}
