"""Compilation of the equations: the only package that imports a backend (LLVM, JAX).

    compile(vehicle)                        a step, a rollout or a closed loop, and its derivatives, on a backend
    Stepper(vehicle).rollout()              the body of a loop; compile_scan(backend, scan) compiles it for batches
    CompiledStep(body, carry, held)         a traced function as compiled code with its memory
    trace_program(function, *templates)     a function of scalars as a list of instructions
    symbols, jacobian, program_from_symbols the same from expressions, for solvers that build their programs
    tangent_program, adjoint_program        forward and reverse derivatives of a program
    compile_loops(loops)                    programs in loops over arrays in memory, forwards and backwards
    linearize(vehicle)                      the linear model about hover or a state
    has_gpu, run_parallel, vector_width     GPU, threads and SIMD width of the machine

Array programs of the JAX executors are in `samara.compiler.jax.arrays`: `compile_arrays`, `repeat`, `branch`,
`call_kernel`. Names are imported on first access.
"""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.compiler.compiled_step import STRICT, CompiledStep, Machine, Precision
    from samara.compiler.derivatives.forward import compile_tangent, tangent_program
    from samara.compiler.derivatives.linearize import linearize
    from samara.compiler.derivatives.reverse import adjoint_program
    from samara.compiler.jax import has_gpu
    from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, CallChain, CompiledLoops, Pass, compile_loops
    from samara.compiler.llvm.codegen import vector_width
    from samara.compiler.llvm.scan import compile_program, compile_scan_program
    from samara.compiler.scan import CompiledScan, Templates
    from samara.compiler.simulator import Simulator, compile
    from samara.compiler.stepper import BACKENDS, Scan, Stepper, compile_scan, require_backend
    from samara.compiler.thread_pool import run_parallel
    from samara.compiler.trace.folding_tape import trace_program
    from samara.compiler.trace.program import Instruction, Program
    from samara.compiler.trace.symbolic import jacobian, program_from_symbols, symbols
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "BACKENDS",
    "STRICT",
    "ArrayLoop",
    "ArraySpec",
    "CallChain",
    "CompiledLoops",
    "CompiledScan",
    "CompiledStep",
    "Instruction",
    "Machine",
    "Pass",
    "Precision",
    "Program",
    "Scan",
    "Simulator",
    "Stepper",
    "Templates",
    "adjoint_program",
    "compile",
    "compile_loops",
    "compile_program",
    "compile_scan",
    "compile_scan_program",
    "compile_tangent",
    "has_gpu",
    "jacobian",
    "linearize",
    "program_from_symbols",
    "require_backend",
    "run_parallel",
    "symbols",
    "tangent_program",
    "trace_program",
    "vector_width",
]
