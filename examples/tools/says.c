/* A child that is built in several ways: it says so. */
#include <stdio.h>

int main(void)
{
    puts("hello");
    return 0;
}
