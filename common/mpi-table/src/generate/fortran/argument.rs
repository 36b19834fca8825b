//! Conversion of one argument between Fortran and C.

use super::{found, short_addresses};
use crate::generate::front::convert::{decoder, type_name};
use crate::generate::lower_type::identifier;
use crate::{Direction, Function, Kind, Length, Param};

/// The parts of a function's body.
#[derive(Default)]
pub struct Layer {
    /// Statements before the call.
    pub decode: Vec<String>,
    /// Arguments of the C function.
    pub args: Vec<String>,
    /// Outputs after the call, for any result.
    pub always: Vec<String>,
    /// Outputs after a call that succeeded.
    pub success: Vec<String>,
}

impl Layer {
    /// Adds an argument.
    pub fn add(&mut self, function: &Function, param: &Param) {
        let name = identifier(param);
        match param.kind {
            kind if kind.is_handle() => self.handle(param, &name),
            Kind::SendBuffer | Kind::RecvBuffer => {
                self.args.push(format!("super::buffer({name}) as _"));
            }
            // MPI_Get_address may get MPI_BOTTOM.
            Kind::Pointer if param.name == "location" => {
                self.args.push(format!("super::buffer({name}) as _"));
            }
            Kind::Weights => self.args.push(format!("super::weights({name}) as _")),
            Kind::Pointer | Kind::Callback => self.args.push(format!("{name} as _")),
            Kind::String => self.string(function, param, &name),
            Kind::Status => self.status(param, &name),
            Kind::Aint if short_addresses(function) => self.short_address(param, &name),
            Kind::Int | Kind::IntOrUndefined if is_index(function, param) => {
                self.index(param, &name);
            }
            // LOGICAL: a value other than 0 is true.
            Kind::Flag if param.direction == Direction::In && param.array.is_none() => {
                self.args.push(format!("i32::from(*{name} != 0)"));
            }
            _ if param.direction == Direction::In && param.array.is_none() => {
                self.args.push(format!("*{name}"));
            }
            _ => self.args.push(format!("{name} as _")),
        }
    }

    fn handle(&mut self, param: &Param, name: &str) {
        let (convert, kind) = (decoder(param.kind), type_name(param.kind));
        match (&param.array, param.direction) {
            (None, Direction::In) => self.args.push(format!("abi::{convert}_f2c(*{name})")),
            (None, direction) => {
                let initial = match direction {
                    Direction::Out => "0".to_owned(),
                    _ => format!("abi::{convert}_f2c(*{name})"),
                };
                self.decode
                    .push(format!("let mut {name}_: abi::{kind} = {initial};"));
                self.args.push(format!("&raw mut {name}_"));
                self.always
                    .push(format!("*{name} = abi::{convert}_c2f({name}_);"));
            }
            (Some(length), direction) => {
                let initial = match direction {
                    Direction::Out => "|_| 0".to_owned(),
                    _ => format!("|entry| abi::{convert}_f2c(*{name}.add(entry))"),
                };
                self.array(name, &format!("abi::{kind}"), &entries(length), &initial);
                let back = format!("*{name}.add(entry) = abi::{convert}_c2f(handle);");
                let each =
                    format!("for entry in 0..{name}_len {{ let handle = *{name}_.add(entry);");
                match direction {
                    Direction::In => {}
                    // The call may return fewer entries than the array has. The others are not changed.
                    Direction::Out => self
                        .success
                        .push(format!("{each} if handle != 0 {{ {back} }} }}")),
                    Direction::InOut => self.always.push(format!("{each} {back} }}")),
                }
            }
        }
    }

    /// A converted copy of an array, as an argument.
    fn array(&mut self, name: &str, entry: &str, len: &str, initial: &str) {
        self.decode.push(format!("let {name}_len = {len};"));
        self.decode.push(format!(
            "let mut {name}_scratch = Scratch::<{entry}>::new();"
        ));
        self.decode.push(format!(
            "let {name}_ = {name}_scratch.fill({name}_len, {initial});"
        ));
        self.args.push(format!("{name}_ as _"));
    }

    fn string(&mut self, function: &Function, param: &Param, name: &str) {
        if param.direction == Direction::In {
            self.decode
                .push(format!("let {name}_ = Name::of({name}, {name}_len);"));
            self.args.push(format!("{name}_.as_ptr()"));
            return;
        }
        let capacity = match &param.array {
            Some(Length::Bytes(bytes)) => bytes.to_string(),
            // The application gives the length of its buffer.
            _ if function.param("valuelen").is_some() => {
                "common::entries(*valuelen) + 1".to_owned()
            }
            _ => "Text::LONGEST_KEY".to_owned(),
        };
        self.decode
            .push(format!("let mut {name}_ = Text::new({capacity});"));
        self.args.push(format!("{name}_.as_mut_ptr()"));
        let write = format!("{name}_.write({name}, {name}_len);");
        match found(function) {
            Some(flag) => self.always.push(format!(
                "if code == contract::abi::SUCCESS && *{} != 0 {{ {write} }}",
                identifier(flag)
            )),
            None => self.success.push(write),
        }
    }

    fn status(&mut self, param: &Param, name: &str) {
        let Some(length) = &param.array else {
            let mutable = match param.direction {
                Direction::In => "",
                _ => "mut ",
            };
            self.decode
                .push(format!("let {mutable}{name}_ = Status::of({name});"));
            match param.direction {
                Direction::In => self.args.push(format!("{name}_.value()")),
                _ => {
                    self.args.push(format!("{name}_.place()"));
                    self.always.push(format!("{name}_.write();"));
                }
            }
            return;
        };
        // One status for each request. Those that the call does not write are not changed.
        let capacity = match length {
            Length::Param(count) if count == "outcount" => "common::entries(*incount)".to_owned(),
            length => entries(length),
        };
        self.decode.push(format!(
            "let mut {name}_ = Statuses::of({name}, {capacity});"
        ));
        self.args.push(format!("{name}_.place()"));
        self.always.push(format!("{name}_.write();"));
    }

    fn short_address(&mut self, param: &Param, name: &str) {
        match (&param.array, param.direction) {
            (Some(length), _) => {
                let initial = format!("|entry| *{name}.add(entry) as isize");
                self.array(name, "isize", &entries(length), &initial);
            }
            (None, Direction::In) => self.args.push(format!("*{name} as isize")),
            // The high bits are dropped, as in Open MPI. The difference of two such addresses is still right.
            (None, _) => {
                self.decode.push(format!("let mut {name}_ = 0isize;"));
                self.args.push(format!("&raw mut {name}_"));
                self.success.push(format!("*{name} = {name}_ as i32;"));
            }
        }
    }

    /// Adds an index into an array of requests. Fortran counts from 1; MPI_UNDEFINED is not changed.
    fn index(&mut self, param: &Param, name: &str) {
        if param.array.is_some() {
            self.args.push(format!("{name} as _"));
            self.always.push(format!(
                "common::map_in_place({name}, common::entries(*outcount), |index| index + 1);"
            ));
            return;
        }
        self.decode
            .push(format!("let mut {name}_ = contract::abi::UNDEFINED;"));
        self.args.push(format!("&raw mut {name}_"));
        let one = if param.name == "index" {
            format!("if {name}_ < 0 {{ {name}_ }} else {{ {name}_ + 1 }}")
        } else {
            format!("{name}_")
        };
        self.always.push(format!("*{name} = {one};"));
    }
}

/// Whether the parameter is an index or a count that MPI_Waitany and the like return.
fn is_index(function: &Function, param: &Param) -> bool {
    let tells = ["MPI_Waitany", "MPI_Waitsome", "MPI_Testany", "MPI_Testsome"];
    tells.contains(&function.name.as_str()) && param.direction == Direction::Out
}

fn entries(length: &Length) -> String {
    match length {
        Length::Param(count) => format!("common::entries(*{count})"),
        Length::CommSize(comm) => {
            format!("common::collective_size(abi::comm(abi::comm_f2c(*{comm})))")
        }
        Length::Neighbours(comm, incoming) => {
            format!("common::neighbours(abi::comm(abi::comm_f2c(*{comm})), {incoming})")
        }
        Length::Bytes(bytes) => bytes.to_string(),
        Length::Opaque => "compile_error!(\"array of unknown length\")".to_owned(),
    }
}
