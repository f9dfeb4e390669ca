plugins {
    alias(libs.plugins.android.application)
    alias(libs.plugins.kotlin.android)
}

android {
    namespace = "org.deploykit.app"
    compileSdk = 36
    defaultConfig {
        applicationId = "org.deploykit.app"
        minSdk = 24
        targetSdk = 36
        versionCode = 1
        versionName = "1.0"
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }
    androidResources { noCompress += "bin" } // weights are mapped from the app's file
    buildTypes {
        release {
            isMinifyEnabled = true
            isShrinkResources = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"), "rules.pro")
        }
    }
    testOptions.unitTests {
        isIncludeAndroidResources = true
        all {
            it.jvmArgs("--add-opens=java.base/java.io=ALL-UNNAMED")
            it.systemProperty("pictures", layout.buildDirectory.get().asFile.path)
        }
    }
}

kotlin { compilerOptions { jvmTarget = org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_11 } }

dependencies {
    for (model in listOf(libs.animals, libs.digits, libs.sentences)) {
        implementation(model)
        testImplementation(variantOf(model) { classifier("jvm") }) // the library for this machine
    }
    testImplementation(libs.junit)
    testImplementation(libs.robolectric)
}
