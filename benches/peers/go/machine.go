package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// cpuMask is the kernel's set of CPUs.
type cpuMask [16]uint64

// allowed is the process's set, read before any thread is pinned.
var allowed = readMask()

func readMask() []int {
	var mask cpuMask
	syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	var cpus []int
	for cpu := 0; cpu < len(mask)*64; cpu++ {
		if mask[cpu/64]>>(cpu%64)&1 == 1 {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// pinIssuer keeps the calling goroutine on a thread of its own, and that on a CPU.
func pinIssuer(number int) {
	runtime.LockOSThread()
	cpu := allowed[number%len(allowed)]
	var mask cpuMask
	mask[cpu/64] = 1 << (cpu % 64)
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		fmt.Fprintln(os.Stderr, "peer-go: an issuer could not be pinned:", errno)
		os.Exit(3)
	}
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func peakKib() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	var kib int64
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "VmHWM:") {
			fmt.Sscanf(line, "VmHWM: %d", &kib)
		}
	}
	return kib
}

// sink keeps the compiler from leaving a spin out.
var sink uint64

// spin computes: each step needs the one before it, so that the time is the same in every language.
func spin(steps int) {
	x := uint64(0x9e3779b97f4a7c15)
	for step := 0; step < steps; step++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 {
		sink = x
	}
}

func spinTakes(steps int) int64 {
	least := int64(1 << 62)
	for attempt := 0; attempt < 200; attempt++ {
		start := time.Now()
		spin(steps)
		if took := int64(time.Since(start)); took < least {
			least = took
		}
	}
	return least
}

func percentiles(name string, samples []int64) string {
	if len(samples) == 0 {
		return ""
	}
	sort.Slice(samples, func(a, b int) bool { return samples[a] < samples[b] })
	text := ""
	for _, percent := range []int{50, 95, 99} {
		text += fmt.Sprintf(",\"%s_p%d_ns\":%d", name, percent, samples[(len(samples)-1)*percent/100])
	}
	return text
}
