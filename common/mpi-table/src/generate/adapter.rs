//! Generator of the lower half's adapter. It has a function with the signature of each stub, which converts standard
//! values to the native library's, calls the library, and converts the results back.
//!
//! The generated text uses `mpi_sys` and modules of lower-half's folder `mpi`: `handle`, `array`, `value_map`,
//! `large_count`, `status` and `error` in `convert`; `opened_files`, `live_datatypes`, `thread_turns`; and
//! `handwritten` for the functions of [`HAND_WRITTEN`].

use std::fmt::Write;

use super::lower_type::{identifier, lower_signature};
use crate::{Class, Direction, Function, Kind, Length, Param, Returns, Via};

/// Functions with an adapter in lower-half's `handwritten.rs`. Some libraries have them as macros or not at all, or
/// implement them only in part.
const HAND_WRITTEN: &[&str] = &[
    "MPI_Aint_add",
    "MPI_Aint_diff",
    "MPI_Pack",
    "MPI_Unpack",
    "MPI_Type_extent",
    "MPI_Type_lb",
    "MPI_Type_ub",
];

/// Source of the adapter functions and of `fill`, which writes their addresses into the gate.
/// `available` says whether the native library declares a function of that name.
pub fn adapter(available: impl Fn(&str) -> bool) -> String {
    let mut text = "// Generated from the table of MPI functions; do not edit.\n\n".to_owned();
    for function in crossing() {
        let written = match body(function, &available) {
            Some(body) => write_function(&mut text, function, &body),
            None => Ok(()),
        };
        written.expect("writing to a string cannot fail");
    }
    write_names(&mut text).expect("writing to a string cannot fail");
    write_slots(&mut text).expect("writing to a string cannot fail");
    write_fill(&mut text).expect("writing to a string cannot fail");
    text
}

/// The functions that cross: all except those that the upper half implements by others.
fn crossing() -> impl Iterator<Item = &'static Function> {
    let functions = crate::functions().iter();
    functions.filter(|function| function.crosses())
}

fn write_function(text: &mut String, function: &Function, body: &str) -> std::fmt::Result {
    writeln!(
        text,
        "pub(super) unsafe extern \"C\" fn {}{} {{",
        function.name,
        lower_signature(function)
    )?;
    for line in body.lines() {
        writeln!(text, "    {line}")?;
    }
    writeln!(text, "}}\n")
}

fn write_names(text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "/// The function of a slot, also one that does not cross."
    )?;
    writeln!(
        text,
        "pub fn name_of(slot: usize) -> Option<&'static str> {{"
    )?;
    writeln!(text, "    Some(match slot {{")?;
    for function in crate::functions() {
        writeln!(text, "        {} => \"{}\",", function.slot, function.name)?;
    }
    writeln!(text, "        _ => return None,\n    }})\n}}\n")?;
    writeln!(
        text,
        "/// Whether the function with this slot is one of files."
    )?;
    writeln!(text, "pub fn is_of_files(slot: usize) -> bool {{")?;
    let slots: Vec<String> = crossing()
        .filter(|function| function.class.is_file())
        .map(|function| function.slot.to_string())
        .collect();
    writeln!(text, "    matches!(slot, {})\n}}\n", slots.join(" | "))
}

/// The slots of the functions that cross, by their names.
fn write_slots(text: &mut String) -> std::fmt::Result {
    writeln!(text, "#[allow(dead_code, non_upper_case_globals)]")?;
    writeln!(text, "pub(super) mod slot {{")?;
    for function in crossing() {
        writeln!(
            text,
            "    pub const {}: usize = {};",
            function.name, function.slot
        )?;
    }
    writeln!(text, "}}\n")
}

fn write_fill(text: &mut String) -> std::fmt::Result {
    writeln!(text, "/// Hash of the table from which this was generated.")?;
    writeln!(text, "pub const TABLE_HASH: u64 = {:#x};\n", crate::hash())?;
    writeln!(
        text,
        "/// Other hashes of the same table, in checkpoints of older versions."
    )?;
    let older = crate::older_hashes();
    writeln!(text, "pub const OLDER_TABLE_HASHES: &[u64] = &{older:?};\n")?;
    writeln!(
        text,
        "/// Writes the address of every adapter into its slot."
    )?;
    writeln!(text, "fn fill_slots(slots: &[AtomicUsize]) {{")?;
    for function in crossing() {
        let path = match is_hand_written(function) {
            true => "handwritten::",
            false => "",
        };
        fill_slot(text, function, path)?;
    }
    writeln!(text, "}}")
}

/// Writes the statement that fills a function's slot with the function of that name in the module `path`.
pub(super) fn fill_slot(text: &mut String, function: &Function, path: &str) -> std::fmt::Result {
    writeln!(
        text,
        "    slots[{}].store({path}{} as *const () as usize, Ordering::Relaxed);",
        function.slot, function.name
    )
}

/// The body of an adapter function, or none for a hand-written one.
fn body(function: &Function, available: &impl Fn(&str) -> bool) -> Option<String> {
    if is_hand_written(function) {
        return None;
    }
    let native = native(function, available);
    Some(match (refusal(function), native) {
        (None, Some(native)) => Call::new(function, native).body(),
        (refusal, _) => {
            let refusal = refusal.unwrap_or_else(|| "error::unsupported()".to_owned());
            ignoring(function) + &refusal
        }
    })
}

/// The function of the native library that implements `function`. It has the same name; for a large-count form that the
/// library lacks it is the MPI 3 function with MPI_Count (`_x`), or else the ordinary form, for counts that fit an int.
fn native(function: &Function, available: &impl Fn(&str) -> bool) -> Option<String> {
    let same = function.name.clone();
    let ordinary = function.ordinary_name().to_owned();
    let mut names = vec![same];
    if function.is_large() {
        names.push(format!("{ordinary}_x"));
        names.extend(is_narrowed(function).then_some(ordinary));
    }
    // A function that returns no error code always exists: the bindings have a function for each macro.
    let checked = function.returns == Returns::Error;
    names.into_iter().find(|name| !checked || available(name))
}

/// Whether the ordinary form can replace a large-count form if the counts fit an int. It cannot if it returns a count,
/// which may not fit.
fn is_narrowed(function: &Function) -> bool {
    let mut widened = function.params.iter().filter(|param| is_int(param));
    function.via == Via::Direct
        && widened.clone().next().is_some()
        && widened.all(|param| param.direction != Direction::Out)
}

/// Whether a parameter of a large-count form is an int in the ordinary form.
fn is_int(param: &Param) -> bool {
    matches!(param.other, Some(Kind::Int | Kind::IntOrUndefined))
}

/// The result of a function that must not reach the native library.
fn refusal(function: &Function) -> Option<String> {
    let name = &function.name;
    // A callback would run with the wrong thread pointer. Sessions and Fortran handles exist in the upper half only.
    let has = |kind| function.params.iter().any(|param| param.kind == kind);
    match function.returns {
        Returns::Fint | Returns::Handle(_) => Some(format!("error::upper_half_only(\"{name}\")")),
        _ if has(Kind::Fint) || name.contains("f08") => Some("error::unsupported()".to_owned()),
        _ if has(Kind::Callback) || has(Kind::Session) || function.via == Via::Refuse => {
            Some("error::unsupported()".to_owned())
        }
        _ => None,
    }
}

/// Whether a function may wait inside the library for other ranks or for another thread.
fn waits(function: &Function) -> bool {
    let name = function.ordinary_name();
    match function.class {
        Class::Local => name == "MPI_Buffer_detach",
        Class::Object | Class::CollectiveNonblocking => false,
        // Only the upper half calls it, with the rank itself as source and destination.
        Class::SendReceive => false,
        Class::Completion => name.contains("Wait"),
        Class::Send | Class::Receive => {
            let starts = name.starts_with("MPI_I") || name.starts_with("MPI_Start");
            !(starts || name.ends_with("_init") || name == "MPI_Bsend")
        }
        _ => true,
    }
}

fn ignoring(function: &Function) -> String {
    function
        .params
        .iter()
        .map(|param| format!("let _ = {};\n", identifier(param)))
        .collect()
}

/// A call of the native library, composed parameter by parameter.
struct Call<'a> {
    function: &'a Function,
    /// Name of the native function.
    native: String,
    /// Statements before the call.
    before: String,
    /// Arguments of the call.
    arguments: Vec<String>,
    /// Statements after the call, for any result.
    after: String,
    /// Statements after a call that succeeded.
    on_success: String,
}

impl<'a> Call<'a> {
    fn new(function: &'a Function, native: String) -> Self {
        let narrows = function.is_large() && native == function.ordinary_name();
        let mut call = Call {
            function,
            native,
            before: String::new(),
            arguments: Vec::new(),
            after: String::new(),
            on_success: String::new(),
        };
        for param in &function.params {
            match narrows && is_int(param) {
                true => call.add_narrowed(param),
                false => call.add(param),
            }
        }
        call.silence_new_object();
        call.note_datatypes();
        call.note_files();
        call.announce_end();
        call
    }

    /// Records datatypes that are created and freed: a job that is stopped frees the remaining ones.
    fn note_datatypes(&mut self) {
        let makes = |param: &&Param| {
            param.kind == Kind::Datatype
                && param.direction == Direction::Out
                && param.array.is_none()
        };
        if self.function.name == "MPI_Type_free" {
            self.before += "live_datatypes::freed(*datatype);\n";
        } else if self.function.class == Class::Object {
            for param in self.function.params.iter().filter(makes) {
                self.on_success += &format!("live_datatypes::made(*{});\n", identifier(param));
            }
        }
    }

    /// Announces the end of the job.
    fn announce_end(&mut self) {
        if self.function.name == "MPI_Abort" {
            self.before += "hooks::aborting(errorcode);\n";
        }
    }

    /// Records the files that the library opens, and what it does to their names.
    fn note_files(&mut self) {
        match self.function.name.as_str() {
            "MPI_File_open" => {
                self.before += "let opening = opened_files::opening(filename, amode);\n";
                self.after += "let opened = opened_files::opened(opening, handle(comm), amode);\n";
                self.on_success += "opened_files::keep(opened, *fh);\n";
            }
            "MPI_File_close" => {
                self.before += "let closing = *fh;\n";
                self.on_success += "opened_files::closed(closing);\n";
            }
            "MPI_File_delete" => self.before += "opened_files::deleting(filename);\n",
            _ => {}
        }
    }

    fn body(&self) -> String {
        let turn = match waits(self.function) {
            true => "",
            false => "let _turn = thread_turns::turn();\n",
        };
        turn.to_owned() + &self.conversion_and_call()
    }

    fn conversion_and_call(&self) -> String {
        let call = format!("mpi_sys::{}({})", self.native, self.arguments.join(", "));
        if self.function.returns != Returns::Error {
            return format!("{}{call} as _", self.before);
        }
        let Call {
            before,
            after,
            on_success,
            ..
        } = self;
        let of = match self.function.class {
            Class::Tool => "of_tool",
            _ => "standard",
        };
        format!(
            "{before}let code = {call};\n{after}if code != NATIVE_SUCCESS {{\n    \
             return error::{of}(code);\n}}\n{on_success}abi::SUCCESS"
        )
    }

    fn add(&mut self, param: &Param) {
        match param.kind {
            kind if kind.is_handle() => self.add_handle(param),
            Kind::Status => self.add_status(param),
            Kind::String => self.add_string(param),
            Kind::SendBuffer | Kind::RecvBuffer => {
                let cast = mutable(param);
                self.arguments.push(format!("value_map::buffer({cast})"));
            }
            Kind::Weights => {
                let cast = mutable(param);
                self.arguments.push(format!("value_map::weights({cast})"));
            }
            kind => match translation(kind) {
                Some(translation) => self.add_translated(param, translation),
                None => self.add_plain(param),
            },
        }
    }

    fn add_plain(&mut self, param: &Param) {
        let name = identifier(param);
        let is_pointer = param.kind.is_pointer() || param.array.is_some();
        self.arguments.push(match param.direction {
            Direction::In if !is_pointer => format!("{name} as _"),
            _ => format!("{}.cast()", mutable(param)),
        });
    }

    /// Adds a count of a large-count form for the ordinary form, after a check that it fits.
    fn add_narrowed(&mut self, param: &Param) {
        let name = identifier(param);
        let native = format!("{name}_native");
        let (value, argument) = match (&param.array, param.direction) {
            (None, Direction::In) => (format!("large_count::one({name})"), native.clone()),
            (None, Direction::InOut) => {
                self.after += &format!("*{name} = {native}.into();\n");
                (
                    format!("large_count::one(*{name})"),
                    format!("&mut {native}"),
                )
            }
            (Some(length), Direction::In) => {
                self.before += &format!("let mut {name}_room = array::Room::new();\n");
                let length = significant(self.function, param, length);
                let narrow = format!("large_count::all(&mut {name}_room, {name}, {length})");
                (narrow, native.clone())
            }
            _ => (
                "compile_error!(\"a count that is returned\")".to_owned(),
                native.clone(),
            ),
        };
        let mutable = match argument == native {
            true => "",
            false => "mut ",
        };
        self.before += &format!(
            "let Some({mutable}{native}) = {value} else {{ \
             return large_count::too_large(\"{}\"); }};\n",
            self.function.name
        );
        self.arguments.push(argument);
    }

    fn add_handle(&mut self, param: &Param) {
        let name = identifier(param);
        let native = format!("{name}_native");
        let Call {
            before,
            arguments,
            after,
            on_success,
            ..
        } = self;
        if let Some(length) = &param.array {
            let length = capacity(self.function, length);
            let make = if param.direction == Direction::Out {
                "unset"
            } else {
                "read"
            };
            let cast = mutable(param);
            *before += &format!(
                "let mut {name}_room = array::Room::new();\n\
                 let mut {native} = array::Handles::{make}(&mut {name}_room, {cast}, {length});\n"
            );
            arguments.push(format!("{native}.pointer()"));
            match param.direction {
                Direction::In => {}
                Direction::Out => *on_success += &format!("{native}.write_back();\n"),
                Direction::InOut => *after += &format!("{native}.write_back();\n"),
            }
            return;
        }
        match param.direction {
            Direction::In => arguments.push(format!("handle({name})")),
            Direction::Out => {
                *before += &format!("let mut {native} = handle(0);\n");
                arguments.push(format!("&mut {native}"));
                *on_success += &format!("*{name} = lower({native});\n");
            }
            Direction::InOut => {
                *before += &format!("let mut {native} = handle(*{name});\n");
                arguments.push(format!("&mut {native}"));
                *after += &format!("*{name} = lower({native});\n");
            }
        }
    }

    fn add_status(&mut self, param: &Param) {
        let name = identifier(param);
        let native = format!("{name}_native");
        let Call {
            before,
            arguments,
            after,
            ..
        } = self;
        if let Some(length) = &param.array {
            let room = capacity(self.function, length);
            *before += &format!(
                "let mut {name}_room = array::Room::new();\n\
                 let mut {native} = array::Statuses::new(&mut {name}_room, {name}, {room});\n"
            );
            arguments.push(format!("{native}.pointer()"));
            let filled = filled(self.function, length);
            *after += &format!("{native}.write_back({filled}, code);\n");
            return;
        }
        match param.direction {
            Direction::In => {
                *before += &format!("let {native} = status::native(&*{name});\n");
                arguments.push(format!("&{native}"));
            }
            Direction::Out => {
                *before += &format!("let mut {native} = status::Out::new({name});\n");
                arguments.push(format!("{native}.pointer()"));
                *after += &format!("{native}.write_back();\n");
            }
            Direction::InOut => {
                *before += &format!("let mut {native} = status::native(&*{name});\n");
                arguments.push(format!("&mut {native}"));
                *after += &format!("*{name} = status::standard(&{native});\n");
            }
        }
    }

    /// Adds a string. The library writes to a buffer of its own limit, from which the caller's buffer is filled.
    fn add_string(&mut self, param: &Param) {
        let Some(Length::Bytes(bytes)) = param.array else {
            self.arguments.push(format!("{}.cast()", mutable(param)));
            return;
        };
        let name = identifier(param);
        self.before += &format!("let mut {name}_native = array::Text::new();\n");
        self.arguments.push(format!("{name}_native.pointer()"));
        self.on_success +=
            &format!("let {name}_length = {name}_native.write_back({name}, {bytes});\n");
        let has_length = self.function.param("resultlen").is_some();
        self.on_success += &match has_length {
            true => format!("*resultlen = {name}_length;\n"),
            false => format!("let _ = {name}_length;\n"),
        };
    }

    /// Adds an integer whose values differ between the standard ABI and the library.
    fn add_translated(&mut self, param: &Param, translation: &str) {
        let name = identifier(param);
        let from = format!("value_map::{translation}_native");
        let back = format!("value_map::{translation}_standard");
        let length = param
            .array
            .as_ref()
            .map(|length| capacity(self.function, length));
        match (param.direction, length) {
            (Direction::In, None) => self.arguments.push(format!("{from}({name})")),
            (Direction::In, Some(length)) => {
                self.before +=
                    &format!("let mut {name}_native = array::ints({name}, {length}, {from});\n");
                self.arguments.push(format!("{name}_native.as_mut_ptr()"));
            }
            (Direction::InOut, None) => {
                self.before += &format!("let mut {name}_native = {from}(*{name});\n");
                self.arguments.push(format!("&mut {name}_native"));
                self.after += &format!("*{name} = {back}({name}_native);\n");
            }
            (Direction::Out, None) => {
                self.arguments.push(name.clone());
                self.on_success += &format!("*{name} = {back}(*{name});\n");
            }
            (Direction::Out | Direction::InOut, Some(length)) => {
                self.arguments.push(name.clone());
                self.on_success += &format!("array::map({name}, {length}, {back});\n");
            }
        }
    }

    /// Sets MPI_ERRORS_RETURN on a new object, so that the library returns its errors.
    fn silence_new_object(&mut self) {
        for param in &self.function.params {
            let setter = match (param.kind, param.direction) {
                // A duplicate of MPI_Comm_idup is not complete yet; it inherits the handler of its parent.
                (Kind::Comm, Direction::Out) if self.function.name != "MPI_Comm_idup" => "comm",
                (Kind::Win, Direction::Out) => "win",
                _ => continue,
            };
            let name = identifier(param);
            self.on_success += &format!("error::return_errors_of_{setter}({name}_native);\n");
        }
    }
}

/// The translation in `values` for a kind of integer.
fn translation(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Rank => "rank",
        Kind::Tag => "tag",
        Kind::Keyval => "keyval",
        Kind::ErrorCode => "error",
        Kind::ThreadLevel => "thread_level",
        Kind::Comparison => "comparison",
        Kind::TopologyType => "topology",
        Kind::SplitType => "split_type",
        Kind::Order => "order",
        Kind::Distribution => "distribution",
        Kind::DistributionArg => "distribution_arg",
        Kind::Combiner => "combiner",
        Kind::TypeClass => "type_class",
        Kind::LockType => "lock_type",
        Kind::WindowAssert => "win_assert",
        Kind::AccessMode => "access_mode",
        Kind::Whence => "whence",
        Kind::Verbosity => "verbosity",
        Kind::Bind => "bind",
        Kind::Scope => "scope",
        Kind::PvarClass => "pvar_class",
        _ => return None,
    })
}

/// The parameter as a `*mut` pointer, which Rust coerces to `*const` where C has const.
fn mutable(param: &Param) -> String {
    let name = identifier(param);
    match param.direction {
        Direction::In => format!("{name}.cast_mut()"),
        Direction::Out | Direction::InOut => name,
    }
}

/// Whether lower-half's `handwritten.rs` has the function.
pub fn is_hand_written(function: &Function) -> bool {
    HAND_WRITTEN.contains(&function.name.as_str())
}

/// Capacity of an array in entries, which is known before the call.
pub fn capacity(function: &Function, length: &Length) -> String {
    match length {
        // A count that the call returns is at most the number of requests that it gets.
        Length::Param(name) if is_out(function, name) => {
            let requests = function
                .params
                .iter()
                .find(|param| param.kind == Kind::Request);
            match requests.and_then(|requests| requests.array.as_ref()) {
                Some(Length::Param(count)) if count != name => format!("array::length({count})"),
                _ => format!("compile_error!(\"{}: capacity of {name}?\")", function.name),
            }
        }
        Length::Param(name) => format!("array::length({name})"),
        Length::CommSize(comm) => format!("array::comm_size(handle({comm}))"),
        Length::Neighbours(comm, true) => format!("array::neighbours(handle({comm})).0"),
        Length::Neighbours(comm, false) => format!("array::neighbours(handle({comm})).1"),
        Length::Bytes(bytes) => bytes.to_string(),
        Length::Opaque => format!(
            "compile_error!(\"{}: array of unknown length\")",
            function.name
        ),
    }
}

/// Number of significant entries of an array of counts. The memory of other entries may not exist.
fn significant(function: &Function, param: &Param, length: &Length) -> String {
    let length = capacity(function, length);
    let in_place = function.param("sendbuf").is_some() && param.name.starts_with('s');
    if function.param("root").is_some() {
        format!("large_count::at_root(handle(comm), root, {length})")
    } else if in_place {
        format!("large_count::unless_in_place(sendbuf, {length})")
    } else {
        length
    }
}

/// Number of entries that the call has written.
fn filled(function: &Function, length: &Length) -> String {
    match length {
        Length::Param(name) if is_out(function, name) => format!("array::length(*{name})"),
        _ => capacity(function, length),
    }
}

fn is_out(function: &Function, name: &str) -> bool {
    function
        .param(name)
        .is_some_and(|param| param.direction != Direction::In)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> String {
        let function = crate::functions()
            .iter()
            .find(|f| f.name == name)
            .expect("in the table");
        body(function, &|_| true).expect("a generated body")
    }

    /// The body for a library without large counts.
    fn narrowed(name: &str) -> String {
        let function = crate::functions().iter().find(|f| f.name == name);
        let ordinary = crate::functions().iter().filter(|f| !f.is_large());
        let has = |name: &str| ordinary.clone().any(|f| f.name == name);
        body(function.expect("in the table"), &has).expect("a generated body")
    }

    #[test]
    fn a_library_without_large_counts_gets_those_that_fit() {
        assert!(of("MPI_Allreduce_c").contains("mpi_sys::MPI_Allreduce_c("));
        let reduce = narrowed("MPI_Allreduce_c");
        for part in [
            "let Some(count_native) = large_count::one(count) else {",
            "return large_count::too_large(\"MPI_Allreduce_c\");",
            "mpi_sys::MPI_Allreduce(value_map::buffer(sendbuf.cast_mut()), value_map::buffer(recvbuf), \
             count_native, ",
        ] {
            assert!(reduce.contains(part), "{part} in {reduce}");
        }
        let gather = narrowed("MPI_Gatherv_c");
        assert!(
            gather.contains(
                "large_count::all(&mut recvcounts_room, recvcounts, large_count::at_root(handle(comm), \
                 root, array::comm_size(handle(comm))))"
            ),
            "{gather}"
        );
        assert!(narrowed("MPI_Pack_c").contains("*position = position_native.into();"));
        assert!(narrowed("MPI_Type_size_c").contains("mpi_sys::MPI_Type_size_x("));
        assert!(narrowed("MPI_Type_create_darray_c").ends_with("error::unsupported()"));
    }

    #[test]
    fn every_length_is_known() {
        let text = adapter(|_| true);
        assert!(!text.contains("compile_error"));
    }

    #[test]
    fn a_send_is_conversion_and_call() {
        let send = of("MPI_Send");
        let call = "mpi_sys::MPI_Send(value_map::buffer(buf.cast_mut()), count as _, \
                    handle(datatype), value_map::rank_native(dest), value_map::tag_native(tag), \
                    handle(comm))";
        assert!(send.contains(call), "{send}");
    }

    #[test]
    fn what_the_library_lacks_is_unsupported() {
        let function = crate::functions()
            .iter()
            .find(|f| f.name == "MPI_Iallreduce");
        let body = body(function.expect("in the table"), &|_| false).expect("a body");
        assert!(body.ends_with("error::unsupported()"), "{body}");
    }
}
