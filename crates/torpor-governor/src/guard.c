// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Guarded calls into a governor: they return even if the governor crashes or loops.
 *
 * A thread in such a call has an odd sequence number and a place to jump back to. A fault or the
 * watchdog's signal leaves the call by that jump. It skips only frames of the image, which holds no
 * lock and owns no memory. Outside of such calls, signals go to the previous handlers.
 *
 * Kernel code makes no system calls. If the running kernel has syscall user dispatch, a system call
 * of a governor is a fault; otherwise it could end the process.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <link.h>
#include <ucontext.h>
#include <sys/prctl.h>

/* From include/uapi/linux/prctl.h; the installed header can be older than the kernel. */
#define SET_SYSCALL_USER_DISPATCH	59
#define SYSCALL_DISPATCH_OFF		0
#define SYSCALL_DISPATCH_ON		1
enum { SYSCALLS_ALLOWED, SYSCALLS_BLOCKED };

/* The compiler's setjmp stores three words. Without it, use the library's. */
#if defined(__clang__) && !defined(__x86_64__)
#include <setjmp.h>
typedef jmp_buf jump_place;
#define set_jump(place)	_setjmp(place)
#define jump(place)	_longjmp(place, 1)
#else
typedef void *jump_place[5];
#define set_jump(place)	__builtin_setjmp(place)
#define jump(place)	__builtin_longjmp(place, 1)
#endif

#define barrier()	__asm__ __volatile__("" : : : "memory")

enum { GUARD_FAULT = -1, GUARD_NO_THREAD = -2 };

/* One per thread; the layout up to @place is also in src/guard.rs. */
struct guard {
	volatile uint64_t seq;		/* odd while a governor runs */
	volatile uint64_t kill_seq;	/* the call that the watchdog ends */
	volatile uintptr_t fault_addr;
	volatile uintptr_t instruction;
	volatile int signo;
	jump_place place;
	volatile char syscalls;		/* read by the kernel */
};

/* Read in signal handlers, so it must not be allocated lazily. */
static __thread struct guard *self __attribute__((tls_model("initial-exec")));

static const int fault_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
static struct sigaction previous[NSIG];

size_t torpor_guard_size(void)
{
	return sizeof(struct guard);
}

void torpor_guard_set_thread(struct guard *guard)
{
	self = guard;
}

static int find_library(struct dl_phdr_info *info, size_t size, void *found)
{
	const uintptr_t own = (uintptr_t)prctl;
	uintptr_t *range = found;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD || own - start >= part->p_memsz)
			continue;
		range[0] = start;
		range[1] = part->p_memsz;
		return 1;
	}
	return 0;
}

/*
 * Makes the kernel send SIGSYS for a governor's system calls on this thread. System calls from the
 * C library stay allowed: a signal handler can make some during the call. Old kernels do not
 * support this and allow all.
 */
void torpor_guard_block_syscalls(struct guard *guard)
{
	uintptr_t library[2];

	if (dl_iterate_phdr(find_library, library))
		prctl(SET_SYSCALL_USER_DISPATCH, SYSCALL_DISPATCH_ON, library[0], library[1],
		      &guard->syscalls);
}

void torpor_guard_allow_syscalls(void)
{
	prctl(SET_SYSCALL_USER_DISPATCH, SYSCALL_DISPATCH_OFF, 0, 0, 0);
}

/* Returns the address of the instruction that a signal interrupted; 0 if unknown. */
static uintptr_t instruction_of(const void *context)
{
#if defined(__x86_64__)
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
#else
	(void)context;
	return 0;
#endif
}

static void leave_call(struct guard *guard, int signo, void *addr, const void *context)
{
	guard->instruction = instruction_of(context);
	guard->syscalls = SYSCALLS_ALLOWED;
	guard->signo = signo;
	guard->fault_addr = (uintptr_t)addr;
	guard->seq++;
	jump(guard->place);
}

static void pass_on(int signo, siginfo_t *info, void *context)
{
	const struct sigaction *before = &previous[signo];

	if (before->sa_flags & SA_SIGINFO) {
		before->sa_sigaction(signo, info, context);
	} else if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN) {
		/*
		 * The faulting instruction runs again, now without a handler. A system call, or a
		 * signal from kill(), would not come again: raise it.
		 */
		if (signo == SIGURG)
			return;
		sigaction(signo, before, NULL);
		if (info->si_code <= 0 || signo == SIGSYS)
			raise(signo);
	} else {
		before->sa_handler(signo);
	}
}

static void on_fault(int signo, siginfo_t *info, void *context)
{
	struct guard *guard = self;

	if (guard && guard->seq & 1)
		leave_call(guard, signo, info->si_addr, context);
	pass_on(signo, info, context);
}

static void on_watchdog(int signo, siginfo_t *info, void *context)
{
	struct guard *guard = self;

	if (guard && guard->seq & 1 && guard->seq == guard->kill_seq)
		leave_call(guard, signo, NULL, context);
	pass_on(signo, info, context);
}

int torpor_guard_install(void)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART };

	sigemptyset(&action.sa_mask);
	action.sa_sigaction = on_fault;
	for (size_t i = 0; i < sizeof(fault_signals) / sizeof(fault_signals[0]); i++) {
		if (sigaction(fault_signals[i], &action, &previous[fault_signals[i]]))
			return -1;
	}
	action.sa_sigaction = on_watchdog;
	return sigaction(SIGURG, &action, &previous[SIGURG]);
}

/*
 * A guarded call, for each signature. The answer is a negative code, or has the result in its low
 * half. The governor's arguments come first, so that they are in the right registers already.
 *
 * set_jump() must come directly before the increment that makes the handlers use its place.
 */
#define guarded(made, result) do {		\
	struct guard *guard = self;		\
						\
	if (__builtin_expect(!guard, 0))	\
		return GUARD_NO_THREAD;		\
	if (set_jump(guard->place))		\
		return GUARD_FAULT;		\
	guard->syscalls = SYSCALLS_BLOCKED;	\
	guard->seq++;				\
	barrier();				\
	made;					\
	barrier();				\
	guard->seq++;				\
	guard->syscalls = SYSCALLS_ALLOWED;	\
	return (result);			\
} while (0)

int64_t torpor_guard_select(void *drv, void *dev, bool *stop_tick,
			    int (*select)(void *drv, void *dev, bool *stop_tick))
{
	guarded(uint32_t index = select(drv, dev, stop_tick), index);
}

int64_t torpor_guard_reflect(void *dev, int index, void (*reflect)(void *dev, int index))
{
	guarded(reflect(dev, index), 0);
}

int64_t torpor_guard_call(void *drv, void *dev, int (*call)(void *drv, void *dev))
{
	guarded(uint32_t result = call(drv, dev), result);
}
