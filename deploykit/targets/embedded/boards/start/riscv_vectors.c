/* Turns on the vectors of a RISC-V core before main: start-up code of C libraries leaves them off. */
__attribute__((constructor)) static void turn_vectors_on(void) {
    const unsigned long first_state_of_vectors = 0x200;
    __asm__ volatile("csrs mstatus, %0" : : "r"(first_state_of_vectors));
}
