//! Conversion of the arguments and outputs of one function.
//!
//! Names in the generated text, for a parameter `x`: `x` is the application's argument; `x_` is the argument of the
//! call (an object, or a pointer into scratch); `x_scratch`, `x_lower` and `x_lower_handles` hold it.

use super::received;
use crate::generate::lower_type::identifier;
use crate::{Class, Direction, Function, Kind, Length, Param};

/// The parts of a wrapper's body, in their order there.
#[derive(Default)]
pub struct Body {
    /// Conversion of single handles to objects.
    pub objects: Vec<String>,
    /// Conversion of other arguments to objects and standard values. Lengths may need the objects.
    pub decode: Vec<String>,
    /// Conversion of arrays of handles, which needs memory for as long as the call (calls of the core only).
    pub arrays: Vec<String>,
    /// Conversion of objects to those that a closure keeps (persistent collectives only).
    pub kept: Vec<String>,
    /// Conversion of objects to lower handles (crossings only).
    pub handles: Vec<String>,
    /// Whether `handles` makes a box of lower handles that must live until the operation is complete.
    pub boxes_words: bool,
    /// Arguments of the call.
    pub args: Vec<String>,
    /// Whether the call is a crossing, which takes pointers.
    crosses: bool,
    /// Expression that makes the request of an operation that the library has started, stores it, and has an error code
    /// as its value; empty if there is no request.
    pub request: String,
    /// Outputs after the call, for any result.
    pub always: Vec<String>,
    /// Outputs after a call that succeeded.
    pub success: Vec<String>,
}

impl Body {
    /// The body of a call of the core. Handles are objects.
    pub fn for_core(function: &Function) -> Body {
        Body::new(function, false)
    }

    /// The body of a crossing. Handles are passed as lower handles.
    pub fn for_crossing(function: &Function) -> Body {
        Body::new(function, true)
    }

    /// The body of a persistent collective's closure, which crosses. Handles are passed as lower handles there.
    pub fn for_persistent(function: &Function) -> Body {
        let mut body = Body::new(function, true);
        let kept = Body::kept_objects(function).into_iter();
        body.kept
            .extend(kept.map(|name| format!("let {name} = upper_half::ObjectRef::new({name});")));
        body
    }

    /// The variables of objects that a closure keeps alive.
    pub fn kept_objects(function: &Function) -> Vec<String> {
        let kept = |param: &&Param| {
            matches!(param.kind, Kind::Datatype | Kind::Op) && param.array.is_none()
        };
        let kept = function.params.iter().filter(kept);
        kept.map(|param| format!("{}_", identifier(param)))
            .collect()
    }

    fn new(function: &Function, crossing: bool) -> Body {
        let mut body = Body {
            crosses: crossing,
            ..Body::default()
        };
        let folded = function.folded().unwrap_or_default();
        for param in &function.params {
            match folded.iter().find(|(count, _)| *count == param) {
                Some((count, datatype)) => body.folded(function, count, datatype),
                None => body.param(function, param, crossing),
            }
        }
        body
    }

    /// Adds a count and its datatype. The ordinary form gets the count and the datatype into which they are folded.
    fn folded(&mut self, function: &Function, count: &Param, datatype: &Param) {
        let (count, datatype) = (identifier(count), identifier(datatype));
        let failure = super::failure(function, "code");
        self.decode.push(format!(
            "let {count}_fold = match upper_half::fold({count}, {datatype}_) {{ \
             Ok(fold) => fold, Err(code) => return {failure} }};"
        ));
        self.decode
            .push(format!("let {datatype}_ = {count}_fold.datatype();"));
        self.args.push(format!("{count}_fold.count()"));
    }

    fn param(&mut self, function: &Function, param: &Param, crossing: bool) {
        let name = identifier(param);
        match param.kind {
            kind if kind.is_handle() && crossing => self.handle(function, param, &name),
            kind if kind.is_handle() => self.object(function, param, &name),
            Kind::Status => self.status(function, param, &name),
            Kind::SendBuffer | Kind::RecvBuffer => {
                let buffer = format!("abi::buffer({name} as _)");
                self.pointer("App", &buffer, None);
            }
            Kind::Weights => self.args.push(format!("abi::weights({name} as _) as _")),
            Kind::Callback => self.args.push(format!("core::mem::transmute({name})")),
            kind => match translation(function, param) {
                Some((into, out)) if param.array != Some(Length::Opaque) => {
                    self.translated(function, param, &name, into, out);
                }
                Some(_) => self.args.push(format!(
                    "compile_error!(\"{}: {kind:?} array of unknown length\")",
                    function.name
                )),
                // The displacement unit of the library's windows is one byte.
                None if crossing && function.class == Class::Window && param.kind == Kind::Aint => {
                    let win = super::input(function, Kind::Win).unwrap_or_default();
                    let rank = target_rank(function);
                    self.args
                        .push(format!("{win}_.body.in_bytes({name} as _, {rank})"));
                }
                None => match &param.array {
                    Some(length) => {
                        let known = capacity(function, length);
                        self.pointer("App", &name, known.as_deref());
                    }
                    None if param.direction == Direction::In
                        && (!param.kind.is_pointer() || param.kind == Kind::Pointer) =>
                    {
                        self.args.push(format!("{name} as _"));
                    }
                    None => self.pointer("App", &name, None),
                },
            },
        }
    }

    /// Adds a pointer, which leads to the application's memory (`App`) or to a local of the front (`Local`), and its
    /// length, if it is known. The called function says which type it wants.
    fn pointer(&mut self, whose: &str, pointer: &str, length: Option<&str>) {
        self.args.push(match (self.crosses, length) {
            (true, _) => format!("{pointer} as _"),
            (false, None) => format!("pass({whose}({pointer}))"),
            (false, Some(length)) => format!("pass({whose}(({pointer}, {length})))"),
        });
    }

    /// Adds a handle for the core.
    fn object(&mut self, function: &Function, param: &Param, name: &str) {
        let (decode, object) = (decoder(param.kind), type_name(param.kind));
        match (&param.array, param.direction) {
            (None, Direction::In) => {
                self.objects
                    .push(format!("let {name}_ = abi::{decode}({name});"));
                self.args.push(format!("{name}_"));
            }
            (None, Direction::Out) => {
                self.decode.push(format!(
                    "let mut {name}_: &'static {object} = {object}::null();"
                ));
                self.pointer("Local", &format!("&raw mut {name}_"), None);
                self.always
                    .push(format!("*{name} = abi::{decode}_out({name}_);"));
            }
            (None, Direction::InOut) => {
                self.decode.push(format!(
                    "let {name}_given: &'static {object} = abi::{decode}(*{name});"
                ));
                self.decode.push(format!("let mut {name}_ = {name}_given;"));
                self.pointer("Local", &format!("&raw mut {name}_"), None);
                // An invalid handle is the null object inside. The application's handle is not changed if the call
                // fails.
                self.always.push(format!(
                    "if !core::ptr::eq({name}_, {name}_given) \
                     {{ *{name} = abi::{decode}_out({name}_); }}"
                ));
            }
            (Some(length), direction) => {
                let entries = significant(function, name, &entries(length));
                let initial = match direction {
                    Direction::Out => format!("|_| {object}::null()"),
                    _ => format!("|entry| abi::{decode}(*{name}.add(entry))"),
                };
                self.arrays.push(format!("let {name}_len = {entries};"));
                let entry = format!("&'static {object}");
                let length = format!("{name}_len");
                self.arrays.extend(scratch(name, &entry, &length, &initial));
                let length = format!("{name}_len");
                self.pointer("Local", &format!("{name}_"), Some(&length));
                match direction {
                    Direction::In => {}
                    // The call may return fewer entries than the array has. The others are not changed.
                    Direction::Out => self.success.push(format!(
                        "for entry in 0..{name}_len {{ let object = *{name}_.add(entry); \
                         if !object.is_null() {{ \
                         *{name}.add(entry) = abi::{decode}_out(object); }} }}"
                    )),
                    Direction::InOut => self.always.push(format!(
                        "for entry in 0..{name}_len {{ \
                         *{name}.add(entry) = abi::{decode}_out(*{name}_.add(entry)); }}"
                    )),
                }
            }
        }
    }

    /// Adds a handle for a crossing.
    fn handle(&mut self, function: &Function, param: &Param, name: &str) {
        let decode = decoder(param.kind);
        match (param.kind, &param.array, param.direction) {
            // The library does not know the persistent operation, so the hints have no effect.
            (Kind::Info, ..) if function.class == Class::CollectivePersistent => {}
            (Kind::Request, ..) if function.class == Class::CollectivePersistent => {
                self.args.push(format!("{name}_lower"));
            }
            // Info objects and groups exist in the upper half only. The lower half gets a copy.
            (Kind::Info, None, Direction::In) => {
                self.objects
                    .push(format!("let {name}_ = abi::{decode}({name});"));
                self.handles.push(format!(
                    "let {name}_lower = upper_half::crossing_info({name}_);"
                ));
                self.args.push(format!("{name}_lower.read_lower()"));
            }
            (Kind::Group, None, Direction::In) => {
                self.objects
                    .push(format!("let {name}_ = abi::{decode}({name});"));
                self.handles.push(format!(
                    "let {name}_group = match common::LowerGroup::of({name}_) {{ \
                     Ok(group) => group, Err(code) => return {} }};",
                    super::failure(function, "code")
                ));
                self.args.push(format!("{name}_group.read_lower()"));
            }
            (_, None, Direction::In) => {
                self.objects
                    .push(format!("let {name}_ = abi::{decode}({name});"));
                self.args.push(format!("{name}_.lower()"));
            }
            (Kind::Request, None, Direction::Out) => self.request_lower(function, name),
            (_, Some(length), Direction::In) => self.words_array(function, param, name, length),
            _ => self.args.push(format!(
                "compile_error!(\"{}: no rule for {name} in a crossing\")",
                function.name
            )),
        }
    }

    fn request_lower(&mut self, function: &Function, name: &str) {
        self.handles.push(format!("let mut {name}_lower = 0usize;"));
        self.args.push(format!("&raw mut {name}_lower"));
        let make = match function.class {
            Class::Window => {
                let win = super::input(function, Kind::Win).unwrap_or_default();
                let (asked, module) = super::here(function);
                // An access in a window of one process is complete. Otherwise other accesses to that rank may be in
                // progress.
                let args = match function.accumulates() {
                    true => format!("{}, {win}_", target_rank(function)),
                    false => String::new(),
                };
                format!(
                    "match {win}_.body.{asked}() {{ \
                     true => upper_half::{module}::request({args}), \
                     false => upper_half::access_request({name}_lower, None) }}"
                )
            }
            Class::File => format!("upper_half::file_request({name}_lower)"),
            Class::FileCollectiveNonblocking => {
                format!("upper_half::file_collective_request(clock, {name}_lower)")
            }
            _ if boxed_arrays(function).next().is_some() => {
                format!("upper_half::collective_request(clock, {name}_lower, Some(handles))")
            }
            _ => format!("upper_half::collective_request(clock, {name}_lower, None)"),
        };
        let result = received::will_receive(function, true).unwrap_or_default();
        self.request = format!(
            "match {make} {{ Ok(object) => {{ {result} *{name} = abi::request_out(object); \
             contract::abi::SUCCESS }} Err(code) => code }}"
        );
    }

    /// Adds an array of handles for a crossing. The lower handles of an operation that outlives the call are in one
    /// box, which the request owns.
    fn words_array(&mut self, function: &Function, param: &Param, name: &str, length: &Length) {
        let decode = decoder(param.kind);
        let entries = significant(function, name, &entries(length));
        self.decode.push(format!("let {name}_len = {entries};"));
        let outlives_the_call = matches!(
            function.class,
            Class::CollectiveNonblocking | Class::CollectivePersistent
        );
        if !outlives_the_call {
            self.handles
                .push(format!("let mut {name}_scratch = Scratch::<usize>::new();"));
            self.handles.push(format!(
                "let {name}_ = {name}_scratch.fill({name}_len, \
                 |entry| abi::{decode}(*{name}.add(entry)).lower());"
            ));
            self.args.push(format!("{name}_ as _"));
            return;
        }
        let object = |param: &Param| {
            let (name, decode) = (identifier(param), decoder(param.kind));
            format!("abi::{decode}(*{name}.add(entry))")
        };
        if function.class == Class::CollectivePersistent {
            self.kept.push(format!(
                "let {name}_: Box<[_]> = (0..{name}_len).map(|entry| \
                 upper_half::ObjectRef::new({})).collect();",
                object(param)
            ));
        }
        let before: Vec<String> = boxed_arrays(function)
            .take_while(|other| identifier(other) != name)
            .map(|other| format!("{}_len", identifier(other)))
            .collect();
        if before.len() + 1 == boxed_arrays(function).count() {
            // The box is made at the last array, when all lengths are known.
            let fill = boxed_arrays(function).map(|other| {
                let name = identifier(other);
                match function.class {
                    Class::CollectivePersistent => {
                        format!(".chain({name}_.iter().map(|kept| kept.lower()))")
                    }
                    _ => format!(
                        ".chain((0..{name}_len).map(|entry| {}.lower()))",
                        object(other)
                    ),
                }
            });
            self.handles.push(format!(
                "let mut handles: Box<[usize]> = core::iter::empty(){}.collect();",
                fill.collect::<String>()
            ));
            self.boxes_words = true;
        }
        let offset = match before.is_empty() {
            true => "0".to_owned(),
            false => before.join(" + "),
        };
        self.args
            .push(format!("handles.as_mut_ptr().add({offset}) as _"));
    }

    fn status(&mut self, function: &Function, param: &Param, name: &str) {
        let Some(length) = &param.array else {
            return self.single_status(function, param, name);
        };
        let (capacity, written) = match length {
            Length::Param(count) if is_output(function, count) => (
                format!("common::entries({})", requests_count(function)),
                format!("common::entries(*{count}).min({name}_len)"),
            ),
            length => (entries(length), format!("{name}_len")),
        };
        self.decode.push(format!("let {name}_len = {capacity};"));
        self.decode.push(format!(
            "let mut {name}_scratch = Scratch::<Status>::new();"
        ));
        self.decode.push(format!(
            "let {name}_ = if abi::ignored({name}) {{ core::ptr::null_mut() }} \
             else {{ {name}_scratch.fill({name}_len, |_| Status::EMPTY) }};"
        ));
        let length = format!("{name}_len");
        self.pointer("Local", &format!("{name}_"), Some(&length));
        let filled = completed(function)
            .map(|flag| format!(" && *{flag} != 0"))
            .unwrap_or_default();
        self.always.push(format!(
            "if !{name}_.is_null() && (code == contract::abi::SUCCESS{filled} \
             || code == contract::abi::ERR_IN_STATUS) {{ for entry in 0..{written} {{ \
             abi::status_out(&*{name}_.add(entry), {name}.add(entry)); }} }}"
        ));
    }

    fn single_status(&mut self, function: &Function, param: &Param, name: &str) {
        if param.direction != Direction::Out {
            self.decode
                .push(format!("let mut {name}_ = abi::status_in(&*{name});"));
            self.pointer("Local", &format!("&raw mut {name}_"), None);
            if param.direction == Direction::InOut {
                self.success
                    .push(format!("abi::status_out(&{name}_, {name});"));
            }
            return;
        }
        self.decode
            .push(format!("let mut {name}_status = Status::EMPTY;"));
        self.decode.push(format!(
            "let {name}_ = if abi::ignored({name}) {{ core::ptr::null_mut() }} \
             else {{ &raw mut {name}_status }};"
        ));
        self.pointer("Local", &format!("{name}_"), None);
        let filled = completed(function)
            .map(|flag| format!(" && (code != contract::abi::SUCCESS || *{flag} != 0)"))
            .unwrap_or_default();
        self.always.push(format!(
            "if !{name}_.is_null(){filled} {{ common::single_status(&{name}_status, \
             &raw mut (*{name}).error, || abi::status_out(&{name}_status, {name})); }}"
        ));
    }

    /// Adds an integer with special values.
    fn translated(
        &mut self,
        function: &Function,
        param: &Param,
        name: &str,
        into: Option<&str>,
        out: Option<&str>,
    ) {
        let missing = || {
            format!(
                "compile_error!(\"{}: no translation of {name} in this direction\")",
                function.name
            )
        };
        let into = into.map(|f| format!("abi::{f}")).unwrap_or_else(missing);
        let out = out.map(|f| format!("abi::{f}")).unwrap_or_else(missing);
        match (&param.array, param.direction) {
            (None, Direction::In) => self.args.push(format!("{into}({name}) as _")),
            (None, Direction::Out) => {
                self.pointer("App", name, None);
                self.success.push(format!("*{name} = {out}(*{name});"));
            }
            (None, Direction::InOut) => {
                self.decode
                    .push(format!("let mut {name}_ = {into}(*{name});"));
                self.pointer("Local", &format!("&raw mut {name}_"), None);
                self.always.push(format!(
                    "if {name}_ != {into}(*{name}) {{ *{name} = {out}({name}_); }}"
                ));
            }
            (Some(length), Direction::In) => {
                let initial = format!("|entry| {into}(*{name}.add(entry))");
                self.decode
                    .push(format!("let {name}_len = {};", entries(length)));
                let length = format!("{name}_len");
                self.decode.extend(scratch(name, "i32", &length, &initial));
                self.pointer("Local", &format!("{name}_"), Some(&length));
            }
            (Some(length), _) => {
                self.pointer("App", name, capacity(function, length).as_deref());
                self.success.push(format!(
                    "common::map_in_place({name}, {}, {out});",
                    entries(length)
                ));
            }
        }
    }
}

/// Statements that fill an array in scratch memory.
fn scratch(name: &str, entry: &str, len: &str, initial: &str) -> [String; 2] {
    [
        format!("let mut {name}_scratch = Scratch::<{entry}>::new();"),
        format!("let {name}_ = {name}_scratch.fill({len}, {initial});"),
    ]
}

/// Name of the type of a handle, in the `abi` module and in the upper half.
pub fn type_name(kind: Kind) -> String {
    format!("{kind:?}")
}

/// Name of the function that decodes a handle. With `_out` it is the name of the function that encodes one.
pub fn decoder(kind: Kind) -> String {
    type_name(kind).to_ascii_lowercase()
}

/// The target rank of an access to a window, as a standard value.
fn target_rank(function: &Function) -> String {
    let rank = super::input(function, Kind::Rank).unwrap_or_default();
    format!("abi::rank_in({rank})")
}

/// The functions that translate a kind of integer from and to the application, if it has special values.
fn translation(
    function: &Function,
    param: &Param,
) -> Option<(Option<&'static str>, Option<&'static str>)> {
    Some(match param.kind {
        Kind::Rank => (Some("rank_in"), Some("rank_out")),
        Kind::Tag => (Some("tag_in"), Some("tag_out")),
        Kind::Keyval => (Some("keyval_in"), Some("keyval_out")),
        Kind::ErrorCode => (Some("error_in"), Some("error_out")),
        Kind::ThreadLevel => (Some("thread_level_in"), Some("thread_level_out")),
        Kind::Comparison => (None, Some("comparison_out")),
        Kind::TopologyType => (None, Some("topology_out")),
        Kind::SplitType => (Some("split_type_in"), None),
        Kind::Order => (Some("order_in"), None),
        Kind::Distribution => (Some("distribution_in"), None),
        Kind::DistributionArg => (Some("distribution_arg_in"), None),
        Kind::Combiner => (None, Some("combiner_out")),
        Kind::TypeClass => (Some("type_class_in"), None),
        Kind::LockType => (Some("lock_type_in"), None),
        Kind::WindowAssert => (Some("window_assert_in"), None),
        Kind::AccessMode => (Some("access_mode_in"), Some("access_mode_out")),
        Kind::Whence => (Some("whence_in"), None),
        // Only this offset may be MPI_DISPLACEMENT_CURRENT.
        Kind::Offset if function.name == "MPI_File_set_view" => (Some("displacement_in"), None),
        _ => return None,
    })
}

/// Expression for the number of entries of an array.
pub fn entries(length: &Length) -> String {
    match length {
        Length::Param(count) => format!("common::entries({count})"),
        Length::CommSize(comm) => format!("common::collective_size({comm}_)"),
        Length::Neighbours(comm, incoming) => format!("common::neighbours({comm}_, {incoming})"),
        Length::Bytes(bytes) => bytes.to_string(),
        Length::Opaque => "compile_error!(\"array of unknown length\")".to_owned(),
    }
}

/// Expression for the capacity of an array before the call, if the table says it. A count that the call returns is at
/// most the number of requests.
fn capacity(function: &Function, length: &Length) -> Option<String> {
    match length {
        Length::Opaque => None,
        Length::Param(count) if is_output(function, count) => {
            let named = function.params.iter().any(|p| p.kind == Kind::Request);
            named.then(|| format!("common::entries({})", requests_count(function)))
        }
        length => Some(entries(length)),
    }
}

/// Expression for the number of significant entries of an array of datatypes: 0 if `sendbuf` is MPI_IN_PLACE.
fn significant(function: &Function, name: &str, entries: &str) -> String {
    match function.param("sendbuf") {
        Some(_) if name.starts_with("send") => format!(
            "if abi::buffer(sendbuf as _) as usize == contract::abi::IN_PLACE {{ 0 }} \
             else {{ {entries} }}"
        ),
        _ => entries.to_owned(),
    }
}

/// The arrays of handles.
pub fn boxed_arrays(function: &Function) -> impl Iterator<Item = &Param> {
    function
        .params
        .iter()
        .filter(|p| p.kind.is_handle() && p.array.is_some())
}

fn is_output(function: &Function, name: &str) -> bool {
    function
        .param(name)
        .is_some_and(|param| param.direction != Direction::In)
}

/// The parameter with the number of requests of MPI_Waitsome and the like.
fn requests_count(function: &Function) -> &str {
    function
        .params
        .iter()
        .find_map(|param| match (&param.array, param.kind) {
            (Some(Length::Param(count)), Kind::Request) => Some(count.as_str()),
            _ => None,
        })
        .unwrap_or("compile_error!(\"statuses without requests\")")
}

/// The flag of a test that says whether a request is complete.
fn completed(function: &Function) -> Option<&str> {
    function
        .params
        .iter()
        .find(|param| param.kind == Kind::Flag && param.direction == Direction::Out)
        .map(|param| param.name.as_str())
}
